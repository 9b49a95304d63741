// Says to which operand of a streamed product each chunk belongs, and that they
// come in order. Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_CHUNK_READER_H_
#define GEMMD_SERVICE_RPC_CHUNK_READER_H_

#include <deque>
#include <string>

#include "absl/status/statusor.h"
#include "service/rpc/matmul_request.h"
#include "service/rpc/receive_matrices.h"

namespace gemmd::rpc {

class ChunkReader {
 public:
  // matrices[i] is request.awaited[i]; both outlive the reader.
  ChunkReader(const MatmulRequest& request,
              std::deque<IncomingMatrix>& matrices)
      : request_(request), matrices_(matrices) {}

  // A MatmulStreamRequest after the first. INVALID_ARGUMENT with what came and
  // what is allowed.
  absl::StatusOr<Chunk> Read(const Message& message);

 private:
  std::string Awaited() const;

  const MatmulRequest& request_;
  std::deque<IncomingMatrix>& matrices_;
  size_t current_ = 0;  // Those before are complete.
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_CHUNK_READER_H_
