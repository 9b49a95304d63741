// Sequences through the whole server.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gemmd/v1/matmul.pb.h"
#include "tests/integration/create_tensor.h"
#include "tests/integration/sequence_chain.h"
#include "tests/integration/test_server.h"
#include "tests/service/gate.h"

namespace gemmd {
namespace {

using testing::Chain;
using testing::OnesTimesTwos;
using testing::TestServer;

constexpr char kMethod[] = "/gemmd.v1.MatmulService/Sequence";

class SequenceTest : public ::testing::Test {
 protected:
  grpc::Status Send(const v1::SequenceRequest& request) {
    std::string answer;
    const grpc::Status status =
        server_.CallRaw(kMethod, request.SerializeAsString(), &answer);
    EXPECT_TRUE(!status.ok() || response_.ParseFromString(answer));
    return status;
  }
  void ExpectRefused(const v1::SequenceRequest& request,
                     const std::string& text,
                     grpc::StatusCode code = grpc::INVALID_ARGUMENT) {
    const grpc::Status status = Send(request);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_NE(status.error_message().find(text), std::string::npos)
        << status.error_message() << "\nand not\n"
        << text;
    EXPECT_EQ(server_.engine().tensors().bytes(), 0);
  }

  static v1::MatmulHeader& Step(v1::SequenceRequest& request, int i) {
    return *request.mutable_steps(i);
  }
  // Chain(), changed.
  static v1::SequenceRequest With(
      const std::function<void(v1::SequenceRequest&)>& change) {
    v1::SequenceRequest request = Chain();
    change(request);
    return request;
  }

  static float Bf16(const std::string& bytes) {
    uint32_t bits = 0;
    std::memcpy(reinterpret_cast<char*>(&bits) + 2, bytes.data(), 2);
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

  testing::Gate gate_;
  TestServer::Options Options() {
    auto hooks = std::make_shared<testing::Hooks>();
    hooks->multiply = [this](const auto&, const auto&) {
      gate_.Pass();
      return absl::OkStatus();
    };
    return {.device_bytes = 1 << 20, .hooks = hooks};
  }
  TestServer server_{Options()};
  v1::SequenceResponse response_;
};

TEST_F(SequenceTest, ResultsAreReadByLaterSteps) {
  ASSERT_TRUE(Send(Chain()).ok());
  ASSERT_EQ(response_.steps_size(), 2);
  EXPECT_EQ(response_.steps(0).d(), "") << "it has a name, and is not returned";
  ASSERT_EQ(response_.steps(1).d().size(), 32u);
  EXPECT_EQ(Bf16(response_.steps(1).d()), 64);
  EXPECT_EQ(response_.steps(0).execution().device(), "host");
  EXPECT_GT(response_.phases().execute_us() + response_.phases().queue_us(), 0);
  EXPECT_EQ(server_.engine().tensors().bytes(), 0);
}

TEST_F(SequenceTest, ExecutionsAreToldOnceWhereThatIsAsked) {
  v1::SequenceRequest request = Chain();
  for (int i = 0; i < 3; ++i) {
    *request.add_steps() = Step(request, 1);
    Step(request, 2 + i).mutable_d()->set_name(absl::StrCat("more ", i));
  }
  ASSERT_TRUE(Send(request).ok());  // Its kernel is loaded from here on.
  ASSERT_TRUE(Send(request).ok());
  ASSERT_EQ(response_.steps_size(), 5);
  EXPECT_TRUE(response_.executions().empty());
  EXPECT_TRUE(response_.step_executions().empty());
  std::vector<std::string> each;
  for (const v1::MatmulResponse& step : response_.steps()) {
    each.push_back(step.execution().SerializeAsString());
  }
  const std::string y = response_.steps(1).d();

  request.set_shared_executions(true);
  ASSERT_TRUE(Send(request).ok());
  ASSERT_EQ(response_.steps_size(), 5);
  EXPECT_EQ(response_.steps(1).d(), y);
  EXPECT_LT(response_.executions_size(), 5);
  ASSERT_EQ(response_.step_executions_size(), 5);
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(response_.steps(i).has_execution());
    const v1::Execution& execution =
        response_.executions(static_cast<int>(response_.step_executions(i)));
    EXPECT_EQ(execution.SerializeAsString(), each[i]) << i;
  }
  EXPECT_EQ(response_.step_executions(2), response_.step_executions(3));
}

TEST_F(SequenceTest, WhatHasANameIsReturnedWhereThatIsAsked) {
  ASSERT_TRUE(Send(With([](auto& request) {
                Step(request, 0).mutable_d()->mutable_inline_();
              })).ok());
  EXPECT_EQ(Bf16(response_.steps(0).d()), 8);
  EXPECT_EQ(Bf16(response_.steps(1).d()), 64);
}

TEST_F(SequenceTest, TheAuxiliaryResultIsOneToo) {
  const auto relu = [](v1::MatmulHeader& step) {
    step.mutable_problem()->set_alpha(-1);
    step.mutable_problem()->set_activation(v1::ACTIVATION_RELU);
    step.mutable_problem()->mutable_epilogue()->set_auxiliary(true);
  };
  // h = 0 and is not read: y = -8 times twos.
  ASSERT_TRUE(Send(With([&](auto& request) {
                relu(Step(request, 0));
                Step(request, 0).mutable_auxiliary()->set_name("x");
                Step(request, 1).mutable_a()->set_name("x");
              })).ok());
  EXPECT_EQ(response_.steps(0).auxiliary(), "");
  EXPECT_EQ(Bf16(response_.steps(1).d()), -64);
  EXPECT_EQ(server_.engine().tensors().bytes(), 0);

  v1::CreateTensorRequest create;
  create.set_dtype(v1::DATA_TYPE_BF16);
  create.set_rows(4);
  create.set_columns(4);
  v1::TensorInfo info;
  grpc::ClientContext context;
  auto tensors = v1::TensorService::NewStub(server_.channel());
  ASSERT_TRUE(tensors->CreateTensor(&context, create, &info).ok());
  const int64_t held = server_.engine().tensors().bytes();
  // To a tensor, which the next step reads and the one after it writes.
  const grpc::Status status = Send(With([&](auto& request) {
    relu(Step(request, 0));
    Step(request, 0).mutable_auxiliary()->set_tensor(info.handle());
    Step(request, 1).mutable_a()->set_tensor(info.handle());
    *request.add_steps() = Step(request, 0);
    Step(request, 2).mutable_d()->set_name("g");
    Step(request, 2).mutable_a()->set_name("h");
    Step(request, 2).mutable_auxiliary()->mutable_inline_();
  }));
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(Bf16(response_.steps(1).d()), -64);
  EXPECT_EQ(response_.steps(2).auxiliary().size(), 32u);
  EXPECT_EQ(Bf16(response_.steps(2).auxiliary()), 0);
  EXPECT_EQ(server_.engine().tensors().bytes(), held);

  const grpc::Status both = Send(With([&](auto& request) {
    relu(Step(request, 0));
    v1::Destination& auxiliary = *Step(request, 0).mutable_auxiliary();
    auxiliary.set_tensor(info.handle());
    auxiliary.set_name("x");
  }));
  EXPECT_NE(both.error_message().find(
                "steps[0]: auxiliary.name is given and so is auxiliary.tensor"),
            std::string::npos)
      << both.error_message();
}

// However alike they are, each is a product of its own, and each is answered.
TEST_F(SequenceTest, StepsMaySayTheSame) {
  const std::string tensor =
      testing::CreateTensor(server_.channel(), v1::DATA_TYPE_BF16, 4, 4)
          .handle();
  v1::SequenceRequest request = Chain();
  request.mutable_steps()->RemoveLast();
  v1::MatmulHeader& first = Step(request, 0);  // 8.
  first.mutable_d()->set_tensor(tensor);
  first.mutable_d()->clear_name();
  v1::MatmulHeader scaled;
  *scaled.mutable_problem() = first.problem();
  scaled.mutable_problem()->set_alpha(0);
  scaled.mutable_c()->set_tensor(tensor);
  v1::MatmulHeader twice = scaled;
  twice.mutable_problem()->set_beta(2);
  twice.mutable_d()->set_tensor(tensor);
  v1::MatmulHeader returned = scaled;
  returned.mutable_problem()->set_beta(1);
  for (const v1::MatmulHeader& step :
       {twice, twice, twice, returned, returned}) {
    *request.add_steps() = step;
  }
  const grpc::Status status = Send(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response_.steps_size(), 6);
  for (const int i : {4, 5}) EXPECT_EQ(Bf16(response_.steps(i).d()), 64);
}

TEST_F(SequenceTest, NothingIsAnAnswer) {
  EXPECT_TRUE(Send(v1::SequenceRequest()).ok());
  EXPECT_EQ(response_.steps_size(), 0);
}

TEST_F(SequenceTest, WhatIsWrongNamesItsStepAndField) {
  using R = v1::SequenceRequest;
  const auto refused = [&](const std::function<void(R&)>& change,
                           const std::string& text) {
    ExpectRefused(With(change), text);
  };
  refused([](R& r) { Step(r, 1).mutable_problem()->set_m(-1); },
          "steps[1]: problem.m is -1");
  refused([](R& r) { Step(r, 1).mutable_a()->set_name("g"); },
          "steps[1]: a.name is \"g\"; allowed: names of operands, and of "
          "results of steps before this one: \"ones\", \"twos\", \"h\"");
  refused(
      [](R& r) {
        Step(r, 0).mutable_a()->set_name("y");
        Step(r, 1).mutable_d()->set_name("y");
      },
      "steps[0]: a.name is \"y\"");
  refused([](R& r) { Step(r, 0).mutable_a()->set_name("h"); },
          "steps[0]: a.name is \"h\"");
  refused([](R& r) { Step(r, 1).mutable_d()->set_name("h"); },
          "steps[1]: d.name \"h\" is taken by steps[0]");
  refused([](R& r) { Step(r, 1).mutable_d()->set_name("twos"); },
          "steps[1]: d.name \"twos\" is taken by an operand");
  refused([](R& r) { Step(r, 1).mutable_d()->set_name(std::string(65, 'n')); },
          "steps[1]: d.name has 65 bytes");
  refused([](R& r) { r.mutable_operands(1)->set_name("ones"); },
          "operands[1]: name \"ones\" is taken");
  refused([](R& r) { r.mutable_operands(0)->clear_name(); },
          "operands[0]: name has 0 bytes");
  refused([](R& r) { r.mutable_operands(0)->mutable_data()->push_back('x'); },
          "steps[0]: a.name \"ones\": operand's data has 33 bytes");
  refused([](R& r) { Step(r, 1).mutable_problem()->set_m(5); },
          "steps[1]: a.name \"h\" is bf16 4 x 4 row_major; allowed for this "
          "problem: bf16 5 x 4 row_major");
  refused([](R& r) { Step(r, 1).clear_a(); },
          "steps[1]: a is inline; allowed in a step: a tensor, or a name");
  refused([](R& r) { Step(r, 1).set_device("host"); },
          "steps[1]: device is given");
  refused([](R& r) { r.set_device("cuda:7"); }, "device is unknown");
  refused([](R& r) { Step(r, 0).mutable_d()->set_tensor("t"); },
          "steps[0]: d.name is given and so is d.tensor");
  refused([](R& r) { Step(r, 1).clear_problem(); },
          "steps[1]: header.problem is missing");
  refused(
      [](R& r) {
        for (int i = 0; i < 255; ++i) *r.add_steps() = r.steps(1);
      },
      "steps: more than 256");
  refused(
      [](R& r) {
        for (int i = 0; i < 255; ++i) r.add_operands();
      },
      "operands: more than 256");
  ExpectRefused(With([](R& r) { Step(r, 1).mutable_a()->set_tensor("gone"); }),
                "steps[1]: a.tensor: ", grpc::NOT_FOUND);
}

TEST_F(SequenceTest, AsManyAsMayBe) {
  v1::SequenceRequest request = Chain();
  while (request.operands_size() < 256) {
    v1::SequenceOperand& more = *request.add_operands();
    more = request.operands(0);
    more.set_name(absl::StrCat("operand ", request.operands_size()));
  }
  while (request.steps_size() < 256) {
    *request.add_steps() = request.steps(1);
    Step(request, request.steps_size() - 1).mutable_d()->clear_name();
  }
  const grpc::Status status = Send(request);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response_.steps_size(), 256);
}

TEST_F(SequenceTest, MalformedMessagesAreRefused) {
  for (const std::string& bytes :
       {std::string("\x0a\x05"
                    "abc"),
        std::string("\x0a\x02\x0a\x7f"), std::string("\x12\x02\x12\x7f")}) {
    const grpc::Status status = server_.CallRaw(kMethod, bytes);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  }
}

TEST_F(SequenceTest, NamesAreForSequencesAlone) {
  v1::MatmulRequest product = OnesTimesTwos(2, 3, 4);
  const auto refused = [&](const char* text) {
    const grpc::Status status = server_.CallRaw(
        "/gemmd.v1.MatmulService/Matmul", product.SerializeAsString());
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_EQ(
        status.error_message(),
        std::string(text) + " is given; allowed in steps of a Sequence alone");
  };
  product.mutable_header()->mutable_d()->set_name("h");
  refused("d.name");
  product.mutable_header()->mutable_a()->set_name("h");
  refused("a.name");
}

TEST_F(SequenceTest, StepsAndOperandsAreCountedTogether) {
  v1::SequenceRequest request = Chain();
  // Not looked at, because beta is 0.
  Step(request, 1).mutable_c()->set_tensor(std::string(60000, 'c'));
  for (int i = 0; i < 17; ++i) *request.add_steps() = request.steps(1);
  ExpectRefused(request,
                "steps[18]: steps and operands until here have more than "
                "1048576 bytes");
}

TEST_F(SequenceTest, WhatItHoldsOnTheDeviceCountsForTheQuota) {
  gate_.Close();
  std::thread client([&] { EXPECT_TRUE(Send(Chain()).ok()); });
  EXPECT_TRUE(gate_.WaitForArrivals(1));
  const int64_t held = server_.engine().tensors().bytes();
  gate_.Open();
  client.join();
  // Two operands and two results, each of 4 padded lines; "ones" is not read
  // any more when the second is written, and has its layout.
  const int64_t one =
      jit::MatrixLayout{jit::DataType::kBf16, jit::Order::kRowMajor, 4, 4}
          .device_bytes();
  EXPECT_EQ(held, 3 * one);
  EXPECT_EQ(server_.engine().tensors().bytes(), 0);
}

TEST_F(SequenceTest, WhatTheQuotaNeverHoldsIsRefused) {
  // In all, not one by one.
  v1::SequenceRequest request = Chain();
  for (int i = 0; i < 2; ++i) {
    v1::Problem& problem = *Step(request, i).mutable_problem();
    problem.set_m(20000);
    problem.set_alpha(0);
  }
  Step(request, 1).mutable_d()->set_name("y");
  Step(request, 0).mutable_d()->mutable_inline_();
  ExpectRefused(request, "operands and results on the device: ",
                grpc::RESOURCE_EXHAUSTED);
  // One after the other, they have the same room.
  Step(request, 0).mutable_d()->clear_inline_();
  EXPECT_TRUE(Send(request).ok());
}

}  // namespace
}  // namespace gemmd
