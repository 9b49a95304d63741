// What a client says of a call as a whole, in its metadata. A view of a
// context, which outlives it.
#ifndef GEMMD_SERVICE_RPC_CALL_METADATA_H_
#define GEMMD_SERVICE_RPC_CALL_METADATA_H_

#include <grpcpp/server_context.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "service/rpc/trace_context.h"

namespace gemmd::rpc {

class CallMetadata {
 public:
  // How many bytes the largest message of the call has.
  static constexpr char kAnnouncement[] = "gemmd-message-bytes";

  explicit CallMetadata(const grpc::ServerContextBase& context)
      : context_(context) {}

  // RESOURCE_EXHAUSTED for more than gRPC takes from a client that has
  // acknowledged its settings; INVALID_ARGUMENT for checksums of an unknown
  // kind and for a bad idempotency key.
  absl::Status Check() const;

  // No message has more bytes. 0: nothing is said.
  int64_t announced_bytes() const;
  // Whether messages end with a checksum.
  bool has_checksums() const;
  // "": none.
  std::string idempotency_key() const;
  // Nothing unless the client sent one that is valid.
  std::optional<TraceContext> trace() const;
  // All values of `name`.
  using Values = absl::InlinedVector<absl::string_view, 1>;
  Values All(absl::string_view name) const;

 private:
  absl::Status CheckSize() const;
  // Nothing unless the client sent it once: more would be as good as none.
  std::optional<absl::string_view> One(absl::string_view name) const;

  const grpc::ServerContextBase& context_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_CALL_METADATA_H_
