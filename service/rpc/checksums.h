// Messages that end with a Checksum (checksum.proto). A loop sees to its other
// events between parts of a long one.
#ifndef GEMMD_SERVICE_RPC_CHECKSUMS_H_
#define GEMMD_SERVICE_RPC_CHECKSUMS_H_

#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"
#include "service/rpc/async.h"
#include "service/rpc/event_loop.h"
#include "service/rpc/message.h"

namespace gemmd::rpc {

// Takes the Checksum off the end of `message`. DATA_LOSS unless there is one,
// of the bytes before it.
Async<absl::Status> TakeChecksum(EventLoop& loop, Message& message);

// `message` and its Checksum.
Async<grpc::ByteBuffer> AddChecksum(EventLoop& loop,
                                    const grpc::ByteBuffer& message);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_CHECKSUMS_H_
