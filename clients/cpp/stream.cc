#include "clients/cpp/stream.h"

#include "clients/cpp/checksums.h"
#include "clients/cpp/status.h"

namespace gemmd::client {

Stream::Stream(const std::shared_ptr<grpc::Channel>& channel,
               const std::string& method, grpc::ClientContext& context,
               bool checksums)
    : context_(context), checksums_(checksums), stub_(channel) {
  if (checksums_) AnnounceChecksums(context);
  call_ = stub_.PrepareCall(&context, method, &queue_);
  call_->StartCall(nullptr);
  Wait();
}

bool Stream::Write(const grpc::ByteBuffer& message) {
  call_->Write(checksums_ ? AddChecksum(message) : message, nullptr);
  return Wait();
}

bool Stream::WritesDone() {
  call_->WritesDone(nullptr);
  return Wait();
}

bool Stream::Read(grpc::ByteBuffer& message) {
  call_->Read(&message, nullptr);
  if (!Wait()) return false;
  if (checksums_) damaged_ = CheckChecksum(message);
  if (damaged_.ok()) return true;
  context_.TryCancel();
  return false;
}

absl::Status Stream::Finish() {
  grpc::Status status;
  call_->Finish(&status, nullptr);
  Wait();
  return damaged_.ok() ? ToStatus(status) : damaged_;
}

bool Stream::Wait() {
  void* tag = nullptr;
  bool ok = false;
  return queue_.Next(&tag, &ok) && ok;
}

}  // namespace gemmd::client
