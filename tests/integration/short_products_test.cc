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
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

constexpr int64_t kSide = 8192;  // A minute of one core.

class ShortProductsTest : public ::testing::Test {
 protected:
  grpc::Status Multiply(const v1::MatmulRequest& request) {
    grpc::ClientContext context;
    v1::MatmulResponse response;
    return v1::MatmulService::NewStub(channel_)->Matmul(&context, request,
                                                        &response);
  }

  std::string CreateTensor(v1::DataType type) {
    return testing::CreateTensor(channel_, type, kSide, kSide).handle();
  }

  testing::DaemonProcess daemon_{
      {"--device=host", "--drain-timeout=0", "--nvrtc=" GEMMD_TEST_NVRTC}};
  const std::shared_ptr<grpc::Channel> channel_ = daemon_.Connect();
};

TEST_F(ShortProductsTest, TheyEndBeforeTheLongOnes) {
  const v1::MatmulRequest small = testing::OnesTimesTwos(4, 4, 4);
  ASSERT_TRUE(Multiply(small).ok());  // Its kernel is there.
  v1::MatmulRequest large = testing::OnesTimesTwos(0, 0, 0);
  v1::MatmulHeader& header = *large.mutable_header();
  header.mutable_problem()->set_m(kSide);
  header.mutable_problem()->set_n(kSide);
  header.mutable_problem()->set_k(kSide);
  header.mutable_a()->set_tensor(CreateTensor(v1::DATA_TYPE_BF16));
  header.mutable_b()->set_tensor(CreateTensor(v1::DATA_TYPE_BF16));
  std::vector<std::future<grpc::Status>> running;
  const int64_t before = testing::CpuTicks(daemon_.pid());
  for (int lane = 0; lane < 2; ++lane) {
    header.mutable_d()->set_tensor(CreateTensor(v1::DATA_TYPE_F32));
    running.push_back(std::async(std::launch::async,
                                 [this, large] { return Multiply(large); }));
  }
  ASSERT_TRUE(testing::Eventually(
      [&] { return testing::CpuTicks(daemon_.pid()) > before + 200; }));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Multiply(small).ok());
  for (const auto& product : running) {
    EXPECT_EQ(product.wait_for(std::chrono::seconds(0)),
              std::future_status::timeout)
        << "a long product ended first";
  }
  daemon_.Signal(SIGTERM);
  EXPECT_EQ(daemon_.Wait(), 3) << daemon_.Log();
}

}  // namespace
}  // namespace gemmd
