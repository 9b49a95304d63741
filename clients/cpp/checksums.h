// Messages that end with a Checksum (gemmd/v1/checksum.proto).
#ifndef GEMMD_CLIENTS_CPP_CHECKSUMS_H_
#define GEMMD_CLIENTS_CPP_CHECKSUMS_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"

namespace gemmd::client {

// Says that the call's messages do.
void AnnounceChecksums(grpc::ClientContext& context);

// `message` and its Checksum. Copies nothing.
grpc::ByteBuffer AddChecksum(const grpc::ByteBuffer& message);

// DATA_LOSS unless `message` ends with its Checksum, which a parser takes for a
// field that it does not know.
absl::Status CheckChecksum(const grpc::ByteBuffer& message);

}  // namespace gemmd::client

#endif  // GEMMD_CLIENTS_CPP_CHECKSUMS_H_
