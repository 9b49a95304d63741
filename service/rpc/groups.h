// MatmulGroupedRequest, read from the wire: every group is a MatmulRequest.
// Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_GROUPS_H_
#define GEMMD_SERVICE_RPC_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "service/rpc/matmul_request.h"

namespace gemmd::rpc {

inline constexpr int kMaxGroups = 256;
// Of the headers of all groups, which are parsed on a loop.
inline constexpr int64_t kMaxGroupHeaderBytes = 1 << 20;

// Points into the pieces, as ReadMatmulFields does. Sums up the bytes of
// results in `result_bytes`; RESOURCE_EXHAUSTED when no message holds them.
absl::StatusOr<std::vector<MatmulRequest>> ToGroups(
    absl::Span<const Piece> pieces, const Asker& asker, int64_t& result_bytes);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_GROUPS_H_
