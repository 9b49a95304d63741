// Calls with an idempotency key that come again: what they ask for is carried
// out once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/integration/eventually.h"
#include "tests/integration/identity_fixture.h"
#include "tests/integration/raw_call.h"
#include "tests/integration/shared_region.h"
#include "tests/integration/stream_call.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using testing::Eventually;
using ::testing::HasSubstr;
using testing::OnesTimesTwos;
using testing::TestServer;

constexpr char kMetadata[] = "gemmd-idempotency-key";
constexpr char kKey[] = "0123456789abcdef";
constexpr int64_t kSide = 4;
// What a product of this test adds to every element.
constexpr float kStep = 2 * kSide;

class RepeatedCallsTest : public ::testing::Test {
 protected:
  RepeatedCallsTest() {
    hooks_->multiply = [this](const auto&, const auto&) {
      std::unique_lock lock(mutex_);
      ++multiplied_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return !held_; });
      return absl::OkStatus();
    };
    server_ =
        std::make_unique<TestServer>(TestServer::Options{.hooks = hooks_});
    sums_ = Create();
  }
  ~RepeatedCallsTest() override { Hold(false); }

  void Hold(bool held) {
    std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  bool HasMultiplied(int times) {
    return Eventually([&] {
      std::lock_guard lock(mutex_);
      return multiplied_ == times;
    });
  }

  std::unique_ptr<grpc::ClientContext> Context(const std::string& key) {
    auto context = std::make_unique<grpc::ClientContext>();
    context->set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
    if (!key.empty()) context->AddMetadata(kMetadata, key);
    return context;
  }

  std::string Create() {
    v1::CreateTensorRequest request;
    request.set_dtype(v1::DATA_TYPE_F32);
    request.set_rows(kSide);
    request.set_columns(kSide);
    v1::TensorInfo info;
    EXPECT_TRUE(
        tensors()->CreateTensor(Context("").get(), request, &info).ok());
    return info.handle();
  }

  // The tensor and 2 k.
  v1::MatmulRequest Accumulate() {
    v1::MatmulRequest request = OnesTimesTwos(kSide, kSide, kSide);
    request.mutable_header()->mutable_problem()->set_beta(1);
    request.mutable_header()->mutable_c()->set_tensor(sums_);
    request.mutable_header()->mutable_d()->set_tensor(sums_);
    return request;
  }

  grpc::Status Multiply(const v1::MatmulRequest& request,
                        const std::string& key,
                        v1::MatmulResponse* response = nullptr) {
    return MultiplyBy(*Context(key), request, response);
  }
  grpc::Status MultiplyBy(grpc::ClientContext& context,
                          const v1::MatmulRequest& request,
                          v1::MatmulResponse* response = nullptr) {
    v1::MatmulResponse unused;
    return v1::MatmulService::NewStub(server_->channel())
        ->Matmul(&context, request, response == nullptr ? &unused : response);
  }

  // Streams it, with an auxiliary result that is to be sent when it has run,
  // and nobody is there. Who asks again hears that it was carried out.
  void LeaveAndAskAgain(v1::MatmulRequest request) {
    request.mutable_header()
        ->mutable_problem()
        ->mutable_epilogue()
        ->set_auxiliary(true);
    const auto stub = v1::MatmulService::NewStub(server_->channel());
    const auto send = [&](grpc::ClientContext& context) {
      auto stream = stub->MatmulStream(&context);
      for (const auto& message : testing::ToStream(request, 8)) {
        if (!stream->Write(message)) break;
      }
      stream->WritesDone();
      return stream;
    };
    Hold(true);
    const auto left = Context(kKey);
    const auto first = send(*left);
    ASSERT_TRUE(HasMultiplied(1));
    left->TryCancel();
    EXPECT_EQ(first->Finish().error_code(), grpc::StatusCode::CANCELLED);
    // That it has gone is known.
    absl::SleepFor(absl::Milliseconds(100));
    Hold(false);
    EXPECT_TRUE(Eventually([&] {
      const auto context = Context(kKey);
      return send(*context)->Finish().error_code() ==
             grpc::StatusCode::ALREADY_EXISTS;
    }));
  }

  // Of every element of the tensor.
  float Sum() {
    v1::DownloadTensorRequest request;
    request.set_handle(sums_);
    const auto context = Context("");
    const auto stream = tensors()->DownloadTensor(context.get(), request);
    std::string bytes;
    for (v1::DownloadTensorResponse part; stream->Read(&part);) {
      bytes += part.data();
    }
    EXPECT_TRUE(stream->Finish().ok());
    float value = -1;
    if (bytes.size() == sizeof(float) * kSide * kSide) {
      std::memcpy(&value, bytes.data(), sizeof value);
    }
    return value;
  }

  std::unique_ptr<v1::TensorService::Stub> tensors() {
    return v1::TensorService::NewStub(server_->channel());
  }

  const std::shared_ptr<testing::Hooks> hooks_ =
      std::make_shared<testing::Hooks>();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  int multiplied_ = 0;
  std::unique_ptr<TestServer> server_;
  std::string sums_;
};

TEST_F(RepeatedCallsTest, WithAKeyOnce) {
  v1::MatmulResponse first, second;
  ASSERT_TRUE(Multiply(Accumulate(), kKey, &first).ok());
  ASSERT_TRUE(Multiply(Accumulate(), kKey, &second).ok());
  EXPECT_EQ(Sum(), kStep);
  EXPECT_EQ(first.SerializeAsString(), second.SerializeAsString());
  EXPECT_EQ(first.execution().device(), "host");
  // That is no failure.
  v1::Statistics statistics;
  ASSERT_TRUE(v1::ServerService::NewStub(server_->channel())
                  ->GetStatistics(Context("").get(), {}, &statistics)
                  .ok());
  EXPECT_EQ(statistics.failed(), 0);

  ASSERT_TRUE(Multiply(Accumulate(), "fedcba9876543210").ok());
  ASSERT_TRUE(Multiply(Accumulate(), "").ok());
  ASSERT_TRUE(Multiply(Accumulate(), "").ok());
  EXPECT_EQ(Sum(), 4 * kStep);
}

TEST_F(RepeatedCallsTest, BadKeysAreRefused) {
  for (const std::string key :
       {"short", "fifteen-charact", "with a space in it",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef+"}) {
    const grpc::Status refused = Multiply(Accumulate(), key);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << key;
    EXPECT_THAT(refused.error_message(),
                AllOf(HasSubstr("allowed: 16 to 64"),
                      HasSubstr(key == "with a space in it" ? "has a space"
                                                            : " characters;")));
  }
  EXPECT_EQ(Sum(), 0);
}

TEST_F(RepeatedCallsTest, KeyIsOfOneRequest) {
  ASSERT_TRUE(Multiply(Accumulate(), kKey).ok());
  v1::MatmulRequest other = Accumulate();
  other.mutable_header()->mutable_problem()->set_alpha(2);
  EXPECT_EQ(Multiply(other, kKey).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  other = Accumulate();
  other.mutable_a()->back() = '\x40';
  const grpc::Status refused = Multiply(other, kKey);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused.error_message(), HasSubstr("another request"));
  EXPECT_EQ(Sum(), kStep);
}

TEST_F(RepeatedCallsTest, WhatFailedIsTriedAgain) {
  v1::MatmulRequest request = Accumulate();
  request.mutable_a()->pop_back();
  for (int i = 0; i < 2; ++i) {
    const grpc::Status refused = Multiply(request, kKey);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(refused.error_message(), HasSubstr("a has 31 bytes"));
  }
  EXPECT_TRUE(Multiply(Accumulate(), kKey).ok());
  EXPECT_EQ(Sum(), kStep);
}

// The client of the first call leaves while the device works.
TEST_F(RepeatedCallsTest, WhatHasBegunIsAnsweredLater) {
  Hold(true);
  const auto context = Context(kKey);
  auto first = std::async(std::launch::async,
                          [&] { return MultiplyBy(*context, Accumulate()); });
  ASSERT_TRUE(HasMultiplied(1));
  context->TryCancel();
  EXPECT_EQ(first.get().error_code(), grpc::StatusCode::CANCELLED);

  const auto again = Context(kKey);
  EXPECT_EQ(MultiplyBy(*again, Accumulate()).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(again->GetServerTrailingMetadata().count("grpc-retry-pushback-ms"),
            1);
  Hold(false);
  v1::MatmulResponse response;
  EXPECT_TRUE(
      Eventually([&] { return Multiply(Accumulate(), kKey, &response).ok(); }));
  EXPECT_EQ(response.execution().device(), "host");
  EXPECT_EQ(Sum(), kStep);
  EXPECT_TRUE(HasMultiplied(1));
}

// It leaves while its call waits behind another one.
TEST_F(RepeatedCallsTest, WhatHasNotBegunIsForgotten) {
  Hold(true);
  auto other = std::async(std::launch::async,
                          [&] { return Multiply(Accumulate(), ""); });
  ASSERT_TRUE(HasMultiplied(1));
  const auto context = Context(kKey);
  auto first = std::async(std::launch::async,
                          [&] { return MultiplyBy(*context, Accumulate()); });
  // It waits for the tensor: the key could not be asked for without a claim
  // that the call itself may find.
  absl::SleepFor(absl::Milliseconds(200));
  context->TryCancel();
  EXPECT_EQ(first.get().error_code(), grpc::StatusCode::CANCELLED);
  Hold(false);
  EXPECT_TRUE(other.get().ok());
  EXPECT_TRUE(Eventually([&] { return Multiply(Accumulate(), kKey).ok(); }));
  EXPECT_TRUE(Multiply(Accumulate(), kKey).ok());
  EXPECT_EQ(Sum(), 2 * kStep);
}

v1::MatmulHeader* AddStep(const v1::MatmulHeader& like,
                          v1::SequenceRequest& sequence) {
  v1::MatmulHeader* const step = sequence.add_steps();
  *step = like;
  step->mutable_a()->set_name("a");
  step->mutable_b()->set_name("b");
  return step;
}

// The client leaves between two steps: the rest follows all the same.
TEST_F(RepeatedCallsTest, SequenceIsCompleted) {
  const v1::MatmulRequest request = Accumulate();
  v1::SequenceRequest sequence;
  AddStep(request.header(), sequence);
  AddStep(request.header(), sequence);
  for (const auto& [name, data] :
       {std::pair("a", request.a()), std::pair("b", request.b())}) {
    v1::SequenceOperand* const operand = sequence.add_operands();
    operand->set_name(name);
    operand->set_data(data);
  }
  const auto send = [&](grpc::ClientContext& context) {
    v1::SequenceResponse response;
    return v1::MatmulService::NewStub(server_->channel())
        ->Sequence(&context, sequence, &response);
  };
  Hold(true);
  const auto context = Context(kKey);
  auto first = std::async(std::launch::async, [&] { return send(*context); });
  ASSERT_TRUE(HasMultiplied(1));
  context->TryCancel();
  EXPECT_EQ(first.get().error_code(), grpc::StatusCode::CANCELLED);
  // That it has gone is known.
  absl::SleepFor(absl::Milliseconds(100));
  Hold(false);
  EXPECT_TRUE(Eventually([&] { return send(*Context(kKey)).ok(); }));
  EXPECT_EQ(Sum(), 2 * kStep);
}

TEST_F(RepeatedCallsTest, StreamedProductIsCarriedOutOnce) {
  const auto messages = testing::ToStream(Accumulate(), 8);
  for (int i = 0; i < 2; ++i) {
    const auto context = Context(kKey);
    const auto stream = v1::MatmulService::NewStub(server_->channel())
                            ->MatmulStream(context.get());
    for (const auto& message : messages) {
      if (!stream->Write(message)) break;
    }
    stream->WritesDone();
    int answers = 0;
    for (v1::MatmulStreamResponse message; stream->Read(&message);) ++answers;
    const grpc::Status status = stream->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(answers, 1);
  }
  EXPECT_EQ(Sum(), kStep);
}

TEST_F(RepeatedCallsTest, StreamedProductWhoseClientLeavesIsCarriedOutOnce) {
  LeaveAndAskAgain(Accumulate());
  EXPECT_EQ(Sum(), kStep);
}

TEST_F(RepeatedCallsTest, SoIsOneWhoseResultGoesToARegion) {
  const testing::SharedRegion region(*server_);
  v1::MatmulRequest request = OnesTimesTwos(kSide, kSide, kSide);
  region.Name(0, *request.mutable_header()->mutable_d()->mutable_region());
  LeaveAndAskAgain(request);
}

TEST_F(RepeatedCallsTest, AnswersOfSeveralMessagesAreNotKept) {
  for (const bool again : {false, true}) {
    v1::DownloadTensorRequest request;
    request.set_handle(sums_);
    const auto context = Context(kKey);
    const auto stream = tensors()->DownloadTensor(context.get(), request);
    for (v1::DownloadTensorResponse part; stream->Read(&part);) {
    }
    EXPECT_EQ(stream->Finish().error_code(),
              again ? grpc::StatusCode::ALREADY_EXISTS : grpc::StatusCode::OK);
  }
}

TEST_F(RepeatedCallsTest, TensorIsCreatedOnce) {
  v1::CreateTensorRequest request;
  request.set_dtype(v1::DATA_TYPE_F32);
  request.set_rows(3);
  request.set_columns(3);
  v1::TensorInfo first, second;
  ASSERT_TRUE(
      tensors()->CreateTensor(Context(kKey).get(), request, &first).ok());
  const int64_t held = server_->engine().tensors().bytes();
  ASSERT_TRUE(
      tensors()->CreateTensor(Context(kKey).get(), request, &second).ok());
  EXPECT_EQ(first.handle(), second.handle());
  EXPECT_EQ(server_->engine().tensors().bytes(), held);
}

// A tensor whose creator has gone is no more: the answer neither.
TEST_F(RepeatedCallsTest, WhatWasUndoneIsDoneAgain) {
  v1::CreateTensorRequest request;
  request.set_dtype(v1::DATA_TYPE_F32);
  request.set_rows(3);
  request.set_columns(3);
  for (int i = 0; i < 200; ++i) {
    const std::string key = absl::StrCat("0123456789abcdef", i);
    const int64_t held = server_->engine().tensors().bytes();
    const auto context = Context(key);
    std::thread leaves([&] {
      absl::SleepFor(absl::Microseconds(10 * i));
      context->TryCancel();
    });
    v1::TensorInfo info;
    const bool answered =
        tensors()->CreateTensor(context.get(), request, &info).ok();
    leaves.join();
    if (answered) continue;
    v1::TensorInfo again;
    ASSERT_TRUE(Eventually([&] {
      return tensors()->CreateTensor(Context(key).get(), request, &again).ok();
    }));
    v1::DescribeTensorRequest describe;
    describe.set_handle(again.handle());
    ASSERT_TRUE(Eventually([&] {
      v1::TensorInfo found;
      // The first one may be given back a moment later.
      return tensors()
                 ->DescribeTensor(Context("").get(), describe, &found)
                 .ok() &&
             server_->engine().tensors().bytes() > held;
    }));
  }
}

using RepeatedCallsOfPrincipalsTest = testing::IdentityTest;

TEST_F(RepeatedCallsOfPrincipalsTest, HaveKeysOfTheirOwn) {
  StartAliceAndBob();
  const v1::MatmulRequest small = OnesTimesTwos(2, 2, 2);
  const v1::MatmulRequest other = OnesTimesTwos(2, 2, 4);
  const auto send = [&](const std::string& name,
                        const v1::MatmulRequest& request) {
    const testing::PrincipalClient client = As(name);
    grpc::ClientContext context;
    client.Prepare(context);
    context.AddMetadata(kMetadata, kKey);
    v1::MatmulResponse response;
    return client.Call(context, request, &response).error_code();
  };
  EXPECT_EQ(send("alice", small), grpc::StatusCode::OK);
  EXPECT_EQ(send("bob", other), grpc::StatusCode::OK);
  EXPECT_EQ(send("alice", other), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(send("alice", small), grpc::StatusCode::OK);
}

}  // namespace
}  // namespace gemmd
