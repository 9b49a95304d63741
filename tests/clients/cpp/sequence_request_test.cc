// What Client::Run sends, against a service with protobuf's own messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "clients/cpp/client.h"
#include "tests/clients/cpp/fake_services.h"

namespace gemmd::client {
namespace {

class SequenceRequestTest : public ::testing::Test {
 protected:
  SequenceRequestTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(&matmul_);
    server_ = builder.BuildAndStart();
    client_ = Client::Connect("127.0.0.1:" + std::to_string(port),
                              {.timeout = absl::Seconds(30)})
                  .value();
  }

  // 4 x 4 of 8-bit integers, with a bias.
  Product Step() const {
    Product step;
    for (const auto set :
         {&v1::Problem::set_m, &v1::Problem::set_n, &v1::Problem::set_k}) {
      (step.problem.*set)(4);
    }
    step.problem.set_a_type(v1::DATA_TYPE_S8);
    step.problem.set_b_type(v1::DATA_TYPE_S8);
    step.problem.set_d_type(v1::DATA_TYPE_S8);
    step.problem.mutable_epilogue()->set_bias(v1::EXTENT_COLUMN);
    step.a = Operand::Bytes(a_);
    step.b = Operand::Bytes(b_);
    step.bias = Operand::Bytes(a_);
    return step;
  }

  v1::SequenceRequest Sent(const Sequence& sequence) {
    const auto result = client_->Run(sequence);
    EXPECT_TRUE(result.ok()) << result.status();
    return matmul_.last_sequence();
  }

  const std::string a_ = std::string(16, 'a');
  const std::string b_ = std::string(16, 'b');
  FakeMatmul matmul_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Client> client_;
};

TEST_F(SequenceRequestTest, EachMatrixIsSentOnce) {
  Product wider = Step();
  wider.problem.set_beta(1);
  wider.c = wider.a;                // The same matrix, and
  wider.b = Operand::Bytes(b_, 5);  // the same bytes as another one.
  Product transposed = Step();
  transposed.problem.set_a_order(v1::ORDER_COLUMN_MAJOR);
  const v1::SequenceRequest sent =
      Sent({.steps = {Step(), wider, Step(), transposed}, .device = "here"});
  EXPECT_EQ(sent.device(), "here");
  ASSERT_EQ(sent.steps_size(), 4);
  const std::string a = sent.steps(0).a().name();
  EXPECT_EQ(sent.steps(1).a().name(), a);
  EXPECT_EQ(sent.steps(1).c().name(), a);
  EXPECT_EQ(sent.steps(2).b().name(), sent.steps(0).b().name());
  EXPECT_NE(sent.steps(1).b().name(), sent.steps(0).b().name());
  EXPECT_NE(sent.steps(3).a().name(), a);
  // A bias is no matrix, whatever bytes it has.
  EXPECT_NE(sent.steps(0).bias().name(), a);
  EXPECT_EQ(sent.steps(1).bias().name(), sent.steps(0).bias().name());
  ASSERT_EQ(sent.operands_size(), 5);
  for (const v1::SequenceOperand& operand : sent.operands()) {
    const bool is_b = operand.name() == sent.steps(0).b().name() ||
                      operand.name() == sent.steps(1).b().name();
    EXPECT_EQ(operand.data(), is_b ? b_ : a_);
  }
  EXPECT_EQ(sent.operands(0).layout().order(), v1::ORDER_UNSPECIFIED);
  EXPECT_EQ(sent.operands(4).layout().order(), v1::ORDER_COLUMN_MAJOR);
}

TEST_F(SequenceRequestTest, WhatIsSharedIsAnOperandOfTheCall) {
  Product step = Step();
  step.a = {.leading_dimension = 6, .region = "r", .offset = 64};
  step.d = {.region = "r", .offset = 128};
  const v1::SequenceRequest sent = Sent({.steps = {step, step}});
  EXPECT_EQ(sent.operands_size(), 3);
  const v1::SequenceOperand& a = sent.operands(0);
  EXPECT_EQ(a.region().region(), "r");
  EXPECT_EQ(a.region().offset(), 64);
  EXPECT_EQ(a.region().layout().leading_dimension(), 6);
  EXPECT_FALSE(a.has_layout());
  EXPECT_EQ(sent.steps(1).a().name(), a.name());
  EXPECT_EQ(sent.steps(1).d().region().offset(), 128);
  step.b = {.region = "r", .offset = 32};
  EXPECT_EQ(Sent({.steps = {step}}).operands_size(), 3);
}

TEST_F(SequenceRequestTest, NamesAreNotThoseOfTheCaller) {
  Product first = Step();
  first.d = Destination::Named("operand 0");
  Product second = Step();
  second.a = Operand::Named("operand 1");
  second.d = {.name = "operand 3", .returned = true};
  const v1::SequenceRequest sent = Sent({.steps = {first, second}});
  EXPECT_EQ(sent.steps(0).d().name(), "operand 0");
  EXPECT_FALSE(sent.steps(0).d().has_inline_());
  EXPECT_TRUE(sent.steps(1).d().has_inline_());
  EXPECT_EQ(sent.steps(1).a().name(), "operand 1");
  ASSERT_EQ(sent.operands_size(), 3);
  EXPECT_EQ(sent.operands(0).name(), "operand 2");
  EXPECT_EQ(sent.operands(1).name(), "operand 4");
  EXPECT_EQ(sent.operands(2).name(), "operand 5");
}

TEST_F(SequenceRequestTest, LargeOnesAreAnnounced) {
  Product step = Step();
  Sent({.steps = {step}});
  EXPECT_EQ(matmul_.announced(), 0);
  const std::string large(100'000, 'x');
  step.a = Operand::Bytes(large);
  const v1::SequenceRequest sent = Sent({.steps = {step}});
  EXPECT_EQ(matmul_.announced(), static_cast<int64_t>(sent.ByteSizeLong()));
}

TEST_F(SequenceRequestTest, ExecutionsMayComeOnceForAllSteps) {
  const Sequence three = {.steps = {Step(), Step(), Step()}};
  matmul_.ShareExecutions({"first", "others"}, {0, 1, 1});
  const auto all = client_->Run(three);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_TRUE(matmul_.last_sequence().shared_executions());
  ASSERT_EQ(all->executions.size(), 2u);
  EXPECT_EQ(all->execution(0).device(), "first");
  EXPECT_EQ(all->execution(1).device(), "others");
  EXPECT_EQ(all->execution(2).device(), "others");
  EXPECT_EQ(all->steps[2].d, std::string(16, '2'));
  for (const std::vector<uint32_t>& wrong :
       {std::vector<uint32_t>{0, 1}, {0, 1, 1, 0}, {0, 1, 2}, {}}) {
    matmul_.ShareExecutions({"first", "others"}, wrong);
    EXPECT_EQ(client_->Run(three).status().code(), absl::StatusCode::kInternal)
        << wrong.size();
  }
}

TEST_F(SequenceRequestTest, AnswersForAllStepsAreExpected) {
  const Sequence two = {.steps = {Step(), Step()}};
  const auto all = client_->Run(two);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->steps[0].d, std::string(16, '0'));
  EXPECT_EQ(all->steps[1].d, std::string(16, '1'));
  EXPECT_EQ(all->execution(1).device(), "fake");
  EXPECT_EQ(all->phases.execute_us(), 7);
  matmul_.LeaveOut(1);
  EXPECT_EQ(client_->Run(two).status(),
            absl::InternalError("the daemon answered for 1 of 2 steps"));
  matmul_.LeaveOut(-1);
  EXPECT_EQ(client_->Run(two).status(),
            absl::InternalError("the daemon answered for more than 2 steps"));
}

}  // namespace
}  // namespace gemmd::client
