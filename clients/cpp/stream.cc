#include "clients/cpp/stream.h"

#include "clients/cpp/status.h"

namespace gemmd::client {

Stream::Stream(const std::shared_ptr<grpc::Channel>& channel,
               const std::string& method, grpc::ClientContext& context)
    : stub_(channel), call_(stub_.PrepareCall(&context, method, &queue_)) {
  call_->StartCall(nullptr);
  Wait();
}

bool Stream::Write(const grpc::ByteBuffer& message) {
  call_->Write(message, nullptr);
  return Wait();
}

bool Stream::WritesDone() {
  call_->WritesDone(nullptr);
  return Wait();
}

bool Stream::Read(grpc::ByteBuffer& message) {
  call_->Read(&message, nullptr);
  return Wait();
}

absl::Status Stream::Finish() {
  grpc::Status status;
  call_->Finish(&status, nullptr);
  Wait();
  return ToStatus(status);
}

bool Stream::Wait() {
  void* tag = nullptr;
  bool ok = false;
  return queue_.Next(&tag, &ok) && ok;
}

}  // namespace gemmd::client
