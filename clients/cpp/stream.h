// A streaming call with raw messages, one step at a time. Thread-compatible.
#ifndef GEMMD_CLIENTS_CPP_STREAM_H_
#define GEMMD_CLIENTS_CPP_STREAM_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"

namespace gemmd::client {

class Stream {
 public:
  // `context` outlives the stream. Finish() must be called. With `checksums`
  // all messages end with one.
  Stream(const std::shared_ptr<grpc::Channel>& channel,
         const std::string& method, grpc::ClientContext& context,
         bool checksums = false);

  // False when the call has ended; Finish() then says why.
  bool Write(const grpc::ByteBuffer& message);
  bool WritesDone();
  bool Read(grpc::ByteBuffer& message);

  absl::Status Finish();

 private:
  bool Wait();

  grpc::ClientContext& context_;
  const bool checksums_;
  absl::Status damaged_;
  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

}  // namespace gemmd::client

#endif  // GEMMD_CLIENTS_CPP_STREAM_H_
