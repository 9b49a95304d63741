// How calls end that stand or fall together, by what a daemon says of each.
#include <dlfcn.h>
#include <errno.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "clients/cpp/client.h"
#include "gemmd/v1/tensors.grpc.pb.h"
#include "tests/few_threads.h"
#include "tests/integration/eventually.h"

namespace {

// Whether the system gives this thread no others.
thread_local bool is_alone = false;

}  // namespace

// In place of the library's; sanitizers have one of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" int pthread_create(pthread_t* thread,
                              const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) noexcept {
  static const auto create = reinterpret_cast<decltype(&pthread_create)>(
      dlsym(RTLD_NEXT, "pthread_create"));
  return is_alone ? EAGAIN : create(thread, attributes, start, argument);
}
#endif

namespace gemmd::client {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSide = 64;

class DescribedTensors : public v1::TensorService::Service {
 public:
  grpc::Status DescribeTensor(grpc::ServerContext*,
                              const v1::DescribeTensorRequest*,
                              v1::TensorInfo* info) override {
    info->set_rows(kSide);
    info->set_columns(kSide);
    info->set_dtype(v1::DATA_TYPE_F32);
    info->set_order(v1::ORDER_ROW_MAJOR);
    info->set_version(1);
    return grpc::Status::OK;
  }
};

// Of three parts: ends that of the first line once the others are there, and
// those a little later, if nobody has ended them by then.
class EndingTensors final : public DescribedTensors {
 public:
  EndingTensors(grpc::Status first, grpc::Status others)
      : first_(std::move(first)), others_(std::move(others)) {}

  grpc::Status DownloadTensor(
      grpc::ServerContext* context, const v1::DownloadTensorRequest* request,
      grpc::ServerWriter<v1::DownloadTensorResponse>*) override {
    if (request->lines().first() == 0) {
      EXPECT_TRUE(testing::Eventually([this] { return begun_ == 2; }));
      return first_;
    }
    ++begun_;
    const absl::Time end = absl::Now() + absl::Milliseconds(200);
    while (absl::Now() < end) {
      if (context->IsCancelled()) {
        ++ended_;
        return grpc::Status::CANCELLED;
      }
      absl::SleepFor(absl::Milliseconds(5));
    }
    return others_;
  }

  int ended() const { return ended_; }  // By the client.

 private:
  const grpc::Status first_;
  const grpc::Status others_;
  std::atomic<int> begun_ = 0;  // Of the others.
  std::atomic<int> ended_ = 0;
};

// Of one part.
class WholeTensors final : public DescribedTensors {
 public:
  grpc::Status DownloadTensor(
      grpc::ServerContext*, const v1::DownloadTensorRequest* request,
      grpc::ServerWriter<v1::DownloadTensorResponse>* writer) override {
    EXPECT_FALSE(request->has_lines());
    v1::DownloadTensorResponse all;
    all.set_data(std::string(kSide * kSide * 4, 'x'));
    writer->Write(all);
    return grpc::Status::OK;
  }
};

// By three connections. `alone`: without threads that they could have.
absl::Status Download(DescribedTensors& tensors, bool alone = false) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&tensors);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  Options options;
  options.timeout = absl::Seconds(30);
  options.striping = {.connections = 3, .least_bytes = 0};
  const auto client =
      Client::Connect("127.0.0.1:" + std::to_string(port), options).value();
  std::string bytes(kSide * kSide * 4, '\0');
  is_alone = alone;
  const absl::Status status = client->DownloadTensor(
      "tensor", {}, absl::MakeSpan(bytes.data(), bytes.size()));
  is_alone = false;
  return status;
}

TEST(MoveStripesTest, ACauseEndsTheOthers) {
  const grpc::Status broken(grpc::INTERNAL, "broken");
  EndingTensors tensors(broken, {grpc::NOT_FOUND, "too late"});
  const absl::Status status = Download(tensors);
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_EQ(tensors.ended(), 2);
}

TEST(MoveStripesTest, AConsequenceThatComesFirstIsNotTheCause) {
  EndingTensors tensors({grpc::ABORTED, "another part ended"},
                        {grpc::DATA_LOSS, "damaged"});
  const absl::Status status = Download(tensors);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

TEST(MoveStripesTest, WhatEndedAllIsToldAsItCameFirst) {
  EndingTensors tensors({grpc::ABORTED, "overwritten"},
                        {grpc::ABORTED, "another part ended"});
  const absl::Status status = Download(tensors);
  EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("overwritten"));
}

TEST(MoveStripesTest, WhereThereAreNoThreadsAllGoesByOneConnection) {
  if (!testing::FewThreads::kPossible) {
    GTEST_SKIP() << "a sanitizer makes threads itself";
  }
  WholeTensors tensors;
  const absl::Status status = Download(tensors, /*alone=*/true);
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace gemmd::client
