// How calls end that stand or fall together, by what a daemon says of each.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "clients/cpp/client.h"
#include "gemmd/v1/tensors.grpc.pb.h"
#include "tests/integration/eventually.h"

namespace gemmd::client {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSide = 64;

// Of three parts: ends that of the first line once the others are there, and
// those a little later, if nobody has ended them by then.
class EndingTensors final : public v1::TensorService::Service {
 public:
  EndingTensors(grpc::Status first, grpc::Status others)
      : first_(std::move(first)), others_(std::move(others)) {}

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

// By three connections.
absl::Status Download(EndingTensors& tensors) {
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
  return client->DownloadTensor("tensor", {},
                                absl::MakeSpan(bytes.data(), bytes.size()));
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

}  // namespace
}  // namespace gemmd::client
