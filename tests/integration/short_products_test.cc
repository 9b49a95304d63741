// Short products beside long ones that keep every lane but theirs.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/create_tensor.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/eventually.h"
#include "tests/integration/raw_call.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

class ShortProductsTest : public ::testing::Test {
 protected:
  using Channel = std::shared_ptr<grpc::Channel>;

  static grpc::Status Multiply(const Channel& channel,
                               const v1::MatmulRequest& request) {
    grpc::ClientContext context;
    v1::MatmulResponse response;
    return v1::MatmulService::NewStub(channel)->Matmul(&context, request,
                                                       &response);
  }

  // Begins `count` products of squares of so many lines; meanwhile another
  // client has short ones.
  void ExpectShortOnesBefore(int count, int64_t side, v1::DataType type) {
    const v1::MatmulRequest small = testing::OnesTimesTwos(4, 4, 4);
    ASSERT_TRUE(Multiply(other_, small).ok());  // Its kernel is there.
    v1::MatmulRequest large = testing::OnesTimesTwos(0, 0, 0);
    v1::MatmulHeader& header = *large.mutable_header();
    v1::Problem& problem = *header.mutable_problem();
    problem.set_m(side);
    problem.set_n(side);
    problem.set_k(side);
    problem.set_a_type(type);
    problem.set_b_type(type);
    const auto create = [&](v1::DataType of) {
      return testing::CreateTensor(channel_, of, side, side).handle();
    };
    header.mutable_a()->set_tensor(create(type));
    header.mutable_b()->set_tensor(create(type));
    std::vector<std::future<grpc::Status>> running;
    const int64_t before = testing::CpuTicks(daemon_.pid());
    for (int i = 0; i < count; ++i) {
      header.mutable_d()->set_tensor(create(v1::DATA_TYPE_F32));
      running.push_back(std::async(std::launch::async, [this, large] {
        return Multiply(channel_, large);
      }));
    }
    ASSERT_TRUE(testing::Eventually(
        [&] { return testing::CpuTicks(daemon_.pid()) > before + 200; }));
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(Multiply(other_, small).ok());
    for (const auto& product : running) {
      EXPECT_EQ(product.wait_for(std::chrono::seconds(0)),
                std::future_status::timeout)
          << "a long product ended first";
    }
    daemon_.Signal(SIGTERM);
    EXPECT_EQ(daemon_.Wait(), 3) << daemon_.Log();
  }

  testing::DaemonProcess daemon_{
      {"--device=host", "--drain-timeout=0", "--nvrtc=" GEMMD_TEST_NVRTC}};
  const Channel channel_ = daemon_.Connect();
  const Channel other_ = testing::Connect(daemon_.address());
};

TEST_F(ShortProductsTest, TheyEndBeforeTheLongOnes) {
  ExpectShortOnesBefore(2, 8192, v1::DATA_TYPE_BF16);  // A minute of one core.
}

// A fifth of a millisecond of a GPU.
TEST_F(ShortProductsTest, WhatIsLongOnTheHostIsNotShort) {
  ExpectShortOnesBefore(3, 5120, v1::DATA_TYPE_E4M3);
}

}  // namespace
}  // namespace gemmd
