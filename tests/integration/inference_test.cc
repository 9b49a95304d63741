// Inferences that are much work before they are products: they do not hold up
// the calls of others, and what they hold is counted.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "inference/service.grpc.pb.h"
#include "service/rpc/message.h"
#include "tests/integration/held_background.h"
#include "tests/integration/test_server.h"
#include "tests/service/gate.h"

namespace gemmd {
namespace {

using testing::Eventually;
using testing::Gate;
using testing::TestServer;

class InferenceTest : public ::testing::Test {
 protected:
  ~InferenceTest() override { device_.Open(); }

  // A and B of ones; of `a`, and of one column for each of `b`.
  static inference::ModelInferRequest Request(const std::vector<int64_t>& a,
                                              const std::vector<int64_t>& b) {
    inference::ModelInferRequest request;
    request.set_model_name("matmul");
    const auto add = [&](const char* name, const std::vector<int64_t>& shape) {
      auto& input = *request.add_inputs();
      input.set_name(name);
      input.set_datatype("INT8");
      int64_t elements = 1;
      for (const int64_t size : shape) {
        input.add_shape(size);
        elements *= size;
      }
      for (int64_t i = 0; i < elements; ++i) {
        input.mutable_contents()->add_int_contents(1);
      }
    };
    add("A", a);
    add("B", b);
    return request;
  }

  std::future<grpc::Status> Infer(const inference::ModelInferRequest& request) {
    return std::async(std::launch::async, [this, request] {
      grpc::ClientContext context;
      inference::ModelInferResponse response;
      return inference::GRPCInferenceService::NewStub(server_.channel())
          ->ModelInfer(&context, request, &response);
    });
  }

  grpc::Status AskWhetherItLives() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + testing::kPatience);
    inference::ServerLiveResponse response;
    return inference::GRPCInferenceService::NewStub(server_.channel())
        ->ServerLive(&context, {}, &response);
  }

  static bool IsOver(std::future<grpc::Status>& inference) {
    return inference.wait_for(std::chrono::milliseconds(50)) ==
           std::future_status::ready;
  }

  int64_t held_bytes() {
    return server_.server().runtime().requests.held_bytes();
  }

  Gate device_;
  std::shared_ptr<testing::Hooks> hooks_ = [this] {
    auto hooks = std::make_shared<testing::Hooks>();
    hooks->multiply = [this](const auto&, const auto&) {
      device_.Pass();
      return absl::OkStatus();
    };
    return hooks;
  }();
  TestServer server_{{.hooks = hooks_}};
  testing::HeldBackground background_;  // Ends before the server.
};

TEST_F(InferenceTest, ContentsAreNotDecodedOnALoop) {
  background_.Hold(server_.engine());
  auto small = Infer(Request({1, 1024}, {1024, 1}));
  EXPECT_TRUE(small.get().ok());
  auto large = Infer(Request({1024, 1024}, {1024, 1}));
  EXPECT_FALSE(IsOver(large));
  EXPECT_TRUE(AskWhetherItLives().ok());
  background_.Release();
  EXPECT_TRUE(large.get().ok());
}

TEST_F(InferenceTest, MatricesAreNotRepeatedOnALoop) {
  background_.Hold(server_.engine());
  auto few = Infer(Request({8, 1, 1, 4}, {8, 4, 1}));
  EXPECT_TRUE(few.get().ok());
  auto many = Infer(Request({64, 1, 1, 4}, {64, 4, 1}));
  EXPECT_FALSE(IsOver(many));
  EXPECT_TRUE(AskWhetherItLives().ok());
  background_.Release();
  EXPECT_TRUE(many.get().ok());
}

TEST_F(InferenceTest, WhatRepeatedMatricesTakeIsCounted) {
  device_.Close();
  auto inference = Infer(Request({128, 1, 1, 4}, {128, 4, 1}));
  ASSERT_TRUE(device_.WaitForArrivals(1));
  EXPECT_GE(held_bytes(), 2 * 128 * 128 * sizeof(rpc::Piece));
  device_.Open();
  EXPECT_TRUE(inference.get().ok());
  EXPECT_TRUE(Eventually([this] { return held_bytes() == 0; }));
}

}  // namespace
}  // namespace gemmd
