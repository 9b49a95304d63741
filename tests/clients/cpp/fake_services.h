// Services written with protobuf's own messages, which keep what they are sent
// and answer what a test says. Thread-safe.
#ifndef GEMMD_TESTS_CLIENTS_CPP_FAKE_SERVICES_H_
#define GEMMD_TESTS_CLIENTS_CPP_FAKE_SERVICES_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "clients/cpp/client.h"

namespace gemmd::client {

// What a client said that its largest message would have; 0: nothing.
inline int64_t Announced(const grpc::ServerContext& context) {
  const auto found = context.client_metadata().find("gemmd-message-bytes");
  int64_t bytes = 0;
  if (found != context.client_metadata().end()) {
    EXPECT_TRUE(absl::SimpleAtoi(
        absl::string_view(found->second.data(), found->second.size()), &bytes));
  }
  return bytes;
}

class FakeMatmul final : public v1::MatmulService::Service {
 public:
  grpc::Status Matmul(grpc::ServerContext* context,
                      const v1::MatmulRequest* request,
                      v1::MatmulResponse* response) override {
    std::lock_guard lock(mutex_);
    ++calls_;
    announced_ = Announced(*context);
    last_ = *request;
    if (refusals_ > 0) {
      --refusals_;
      context->AddTrailingMetadata("grpc-retry-pushback-ms", try_again_ms_);
      return {grpc::RESOURCE_EXHAUSTED, "the queue is full"};
    }
    if (request->header().device() == "slow") {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
    if (request->header().device() == "bad") {
      return {grpc::INVALID_ARGUMENT, "device is unknown"};
    }
    response->mutable_execution()->set_device("fake");
    const v1::Destination& d = request->header().d();
    if (!d.has_tensor() && !d.has_region()) {
      response->set_d(result_.value_or(Tight(request->header().problem())));
    }
    response->set_auxiliary(auxiliary_);
    if (amax_) response->set_amax(*amax_);
    return grpc::Status::OK;
  }

  // Puts the request together as Matmul has it, and answers in chunks of two
  // bytes.
  grpc::Status MatmulStream(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::MatmulStreamResponse,
                               v1::MatmulStreamRequest>* stream) override {
    std::lock_guard lock(mutex_);
    last_.Clear();
    ++streams_;
    longest_ = 0;
    for (v1::MatmulStreamRequest message; stream->Read(&message);) {
      if (message.has_header()) *last_.mutable_header() = message.header();
      const v1::MatmulStreamRequest::Chunk& chunk = message.chunk();
      longest_ = std::max(longest_, chunk.data().size());
      if (chunk.operand() == v1::MatmulStreamRequest::OPERAND_A) {
        last_.mutable_a()->append(chunk.data());
      } else if (chunk.operand() == v1::MatmulStreamRequest::OPERAND_B) {
        last_.mutable_b()->append(chunk.data());
      } else if (chunk.operand() == v1::MatmulStreamRequest::OPERAND_D_SCALE) {
        last_.mutable_d_scale()->append(chunk.data());
      }
      if (last_.header().device() == "bad" && message.has_chunk()) {
        return {grpc::INVALID_ARGUMENT, "device is unknown"};
      }
    }
    const auto send = [&](const std::string& bytes, auto set) {
      for (size_t i = 0; i < bytes.size(); i += 2) {
        v1::MatmulStreamResponse message;
        set(message, bytes.substr(i, 2));
        stream->Write(message);
      }
    };
    send(result_.value_or(""),
         [](auto& to, const std::string& bytes) { to.set_data(bytes); });
    send(auxiliary_,
         [](auto& to, const std::string& bytes) { to.set_auxiliary(bytes); });
    v1::MatmulStreamResponse end;
    end.mutable_execution()->set_device("fake");
    if (amax_) end.set_amax(*amax_);
    stream->Write(end);
    return grpc::Status::OK;
  }
  int streams() {
    std::lock_guard lock(mutex_);
    return streams_;
  }
  size_t longest() {
    std::lock_guard lock(mutex_);
    return longest_;
  }

  // Each D is made of its place.
  grpc::Status MatmulGrouped(grpc::ServerContext* context,
                             const v1::MatmulGroupedRequest* request,
                             v1::MatmulGroupedResponse* response) override {
    std::lock_guard lock(mutex_);
    announced_ = Announced(*context);
    last_groups_ = *request;
    for (int i = 0; i < request->groups_size() - missing_; ++i) {
      const v1::MatmulRequest& group = request->groups(i);
      if (group.header().device() == "slow") {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
      }
      v1::MatmulResponse& one = *response->add_groups();
      one.mutable_execution()->set_device("fake");
      one.set_d(Tight(group.header().problem(), static_cast<char>('0' + i)));
      if (group.header().problem().epilogue().amax()) one.set_amax(i);
    }
    return grpc::Status::OK;
  }

  // As MatmulGrouped; each D tells its step. Less than none left out is more
  // answers than steps. Executions are those that were set to be shared.
  grpc::Status Sequence(grpc::ServerContext* context,
                        const v1::SequenceRequest* request,
                        v1::SequenceResponse* response) override {
    std::lock_guard lock(mutex_);
    announced_ = Announced(*context);
    last_sequence_ = *request;
    response->mutable_phases()->set_execute_us(7);
    for (int i = 0; i < request->steps_size() - missing_; ++i) {
      v1::MatmulResponse& one = *response->add_steps();
      if (shared_.executions().empty()) {
        one.mutable_execution()->set_device("fake");
      }
      if (i >= request->steps_size()) continue;
      const v1::MatmulHeader& step = request->steps(i);
      if (step.d().has_inline_()) {
        one.set_d(Tight(step.problem(), static_cast<char>('0' + i)));
      }
    }
    response->MergeFrom(shared_);
    return grpc::Status::OK;
  }

  v1::MatmulRequest last() {
    std::lock_guard lock(mutex_);
    return last_;
  }
  int64_t announced() {
    std::lock_guard lock(mutex_);
    return announced_;
  }
  v1::MatmulGroupedRequest last_groups() {
    std::lock_guard lock(mutex_);
    return last_groups_;
  }
  v1::SequenceRequest last_sequence() {
    std::lock_guard lock(mutex_);
    return last_sequence_;
  }
  // How steps of a sequence are said to have run: executions of these devices,
  // and for each step the index of its own.
  void ShareExecutions(const std::vector<std::string>& devices,
                       const std::vector<uint32_t>& steps) {
    std::lock_guard lock(mutex_);
    shared_.Clear();
    for (const auto& device : devices) {
      shared_.add_executions()->set_device(device);
    }
    shared_.mutable_step_executions()->Assign(steps.begin(), steps.end());
  }
  void LeaveOut(int groups) {
    std::lock_guard lock(mutex_);
    missing_ = groups;
  }
  // From now on, so many calls of Matmul; counts them anew.
  void Refuse(int times, const std::string& try_again_ms) {
    std::lock_guard lock(mutex_);
    calls_ = 0;
    refusals_ = times;
    try_again_ms_ = try_again_ms;
  }
  int calls() {
    std::lock_guard lock(mutex_);
    return calls_;
  }
  void Answer(const std::string& result, const std::string& auxiliary = "",
              std::optional<float> amax = {}) {
    std::lock_guard lock(mutex_);
    result_ = result;
    auxiliary_ = auxiliary;
    amax_ = amax;
  }

 private:
  // A D of elements of a byte.
  static std::string Tight(const v1::Problem& problem, char element = 'd') {
    const int64_t batch = problem.has_batch() ? problem.batch() : 1;
    return std::string(problem.m() * problem.n() * batch, element);
  }

  // Nobody is at both ends at a time, but only a lock shows that to a
  // sanitizer: the way through gRPC does not.
  std::mutex mutex_;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int refusals_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string try_again_ms_ ABSL_GUARDED_BY(mutex_);
  v1::MatmulRequest last_ ABSL_GUARDED_BY(mutex_);
  int64_t announced_ ABSL_GUARDED_BY(mutex_) = 0;
  v1::MatmulGroupedRequest last_groups_ ABSL_GUARDED_BY(mutex_);
  v1::SequenceResponse shared_ ABSL_GUARDED_BY(mutex_);
  v1::SequenceRequest last_sequence_ ABSL_GUARDED_BY(mutex_);
  int missing_ ABSL_GUARDED_BY(mutex_) = 0;
  int streams_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t longest_ ABSL_GUARDED_BY(mutex_) = 0;  // Chunk of the last one.
  std::optional<std::string> result_ ABSL_GUARDED_BY(mutex_);
  std::string auxiliary_ ABSL_GUARDED_BY(mutex_);
  std::optional<float> amax_ ABSL_GUARDED_BY(mutex_);
};

// Does not answer GetServerInfo until it has a limit.
class FakeServer final : public v1::ServerService::Service {
 public:
  grpc::Status GetServerInfo(grpc::ServerContext*,
                             const v1::GetServerInfoRequest*,
                             v1::ServerInfo* info) override {
    std::lock_guard lock(mutex_);
    ++asked_;
    if (max_message_bytes_ == 0) return {refusal_, "no info"};
    info->mutable_limits()->set_max_message_bytes(max_message_bytes_);
    return grpc::Status::OK;
  }

  int asked() {
    std::lock_guard lock(mutex_);
    return asked_;
  }
  void Refuse(grpc::StatusCode code) {
    std::lock_guard lock(mutex_);
    refusal_ = code;
  }
  void Limit(int64_t max_message_bytes) {
    std::lock_guard lock(mutex_);
    max_message_bytes_ = max_message_bytes;
  }

 private:
  std::mutex mutex_;  // As above.
  int asked_ ABSL_GUARDED_BY(mutex_) = 0;
  grpc::StatusCode refusal_ ABSL_GUARDED_BY(mutex_) = grpc::UNIMPLEMENTED;
  int64_t max_message_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

class FakeTensors final : public v1::TensorService::Service {
 public:
  grpc::Status CreateTensor(grpc::ServerContext*,
                            const v1::CreateTensorRequest* request,
                            v1::TensorInfo* info) override {
    info->set_handle("handle");
    info->set_rows(request->rows());
    return grpc::Status::OK;
  }
  grpc::Status DescribeTensor(grpc::ServerContext*,
                              const v1::DescribeTensorRequest*,
                              v1::TensorInfo* info) override {
    std::lock_guard lock(mutex_);
    *info = info_;
    return grpc::Status::OK;
  }
  grpc::Status UploadTensor(grpc::ServerContext* context,
                            grpc::ServerReader<v1::UploadTensorRequest>* reader,
                            v1::TensorInfo*) override {
    v1::UploadTensorRequest message;
    if (!reader->Read(&message) || message.header().handle() != "handle") {
      return {grpc::NOT_FOUND, "no such tensor"};
    }
    std::lock_guard lock(mutex_);
    bytes_.clear();
    while (reader->Read(&message)) {
      bytes_ += message.data();
      largest_ = std::max(largest_, message.data().size());
      EXPECT_LE(static_cast<int64_t>(message.ByteSizeLong()),
                Announced(*context));
    }
    return grpc::Status::OK;
  }
  grpc::Status DownloadTensor(
      grpc::ServerContext*, const v1::DownloadTensorRequest* request,
      grpc::ServerWriter<v1::DownloadTensorResponse>* writer) override {
    if (request->handle() != "handle") return {grpc::NOT_FOUND, "no such"};
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < bytes_.size(); i += 1000000) {
      v1::DownloadTensorResponse message;
      message.set_data(bytes_.substr(i, 1000000));
      writer->Write(message);
    }
    return grpc::Status::OK;
  }
  grpc::Status DeleteTensor(grpc::ServerContext*,
                            const v1::DeleteTensorRequest*,
                            v1::DeleteTensorResponse*) override {
    return {grpc::NOT_FOUND, "already gone"};
  }

  std::string bytes() {
    std::lock_guard lock(mutex_);
    return bytes_;
  }
  size_t largest() {
    std::lock_guard lock(mutex_);
    return largest_;
  }
  void Hold(const std::string& bytes) {
    std::lock_guard lock(mutex_);
    bytes_ = bytes;
  }

  void Tell(const v1::TensorInfo& info) {
    std::lock_guard lock(mutex_);
    info_ = info;
  }

 private:
  std::mutex mutex_;  // As above.
  v1::TensorInfo info_ ABSL_GUARDED_BY(mutex_);
  std::string bytes_ ABSL_GUARDED_BY(mutex_);
  size_t largest_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gemmd::client

#endif  // GEMMD_TESTS_CLIENTS_CPP_FAKE_SERVICES_H_
