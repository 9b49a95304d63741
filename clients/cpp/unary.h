// A unary call with raw messages, for those that carry matrices.
#ifndef GEMMD_CLIENTS_CPP_UNARY_H_
#define GEMMD_CLIENTS_CPP_UNARY_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gemmd::client {

// Calls `method` ("/gemmd.v1.MatmulService/Matmul") and waits. With `checksums`
// request and response end with one.
absl::StatusOr<grpc::ByteBuffer> CallRaw(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
    grpc::ClientContext& context, const grpc::ByteBuffer& request,
    bool checksums = false);

// Tells the daemon how large the call's largest message is, so that it waits
// for room before it reads one: see the Limits of deploy/README.md. With
// `checksums` it is that much larger.
void Announce(grpc::ClientContext& context, size_t bytes, bool checksums);

// Of Product::idempotency_key; "" sets none. INVALID_ARGUMENT for characters
// that no key has: gRPC would end the process. How many there are is the
// daemon's affair.
absl::Status SetKey(grpc::ClientContext& context, const std::string& key);

}  // namespace gemmd::client

#endif  // GEMMD_CLIENTS_CPP_UNARY_H_
