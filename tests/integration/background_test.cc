// Answers that take long to make are not made on a loop, where they would hold
// up the calls of others; and not for who has gone.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <utility>

#include "tests/integration/held_background.h"
#include "tests/integration/raw_call.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using testing::TestServer;

class BackgroundTest : public ::testing::Test {
 protected:
  std::string PrepareKernel() {
    v1::PrepareKernelsRequest request;
    *request.add_problems() =
        testing::OnesTimesTwos(64, 64, 64).header().problem();
    v1::PrepareKernelsResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(v1::KernelService::NewStub(server_.channel())
                    ->PrepareKernels(&context, request, &response)
                    .ok());
    return response.kernels(0).cubin_key();
  }

  std::future<grpc::Status> Call(const std::string& method,
                                 const std::string& request) {
    return std::async(std::launch::async, [this, method, request] {
      return server_.CallRaw("/gemmd.v1." + method, request);
    });
  }

  TestServer server_{{.limits = {.admin_calls = true}}};
  testing::HeldBackground background_;  // Ends before the server.
};

TEST_F(BackgroundTest, MakesLongAnswers) {
  v1::DescribeKernelRequest kernel;
  kernel.set_key(PrepareKernel());
  background_.Hold(server_.engine());
  std::future<grpc::Status> calls[] = {
      Call("TensorService/ListTensors", ""),
      Call("KernelService/ListKernels", ""),
      Call("KernelService/DescribeKernel", kernel.SerializeAsString()),
      Call("ServerService/GetServerInfo", "")};
  for (auto& call : calls) {
    EXPECT_EQ(call.wait_for(std::chrono::milliseconds(50)),
              std::future_status::timeout);
  }
  EXPECT_TRUE(Call("ServerService/GetStatistics", "").get().ok());
  background_.Release();
  for (auto& call : calls) EXPECT_TRUE(call.get().ok());
}

TEST_F(BackgroundTest, DoesNothingForWhoHasGone) {
  v1::EvictKernelRequest request;
  request.set_key(PrepareKernel());
  background_.Hold(server_.engine());
  EXPECT_EQ(
      testing::CallRaw(server_.channel(), "/gemmd.v1.KernelService/EvictKernel",
                       request.SerializeAsString(), absl::Milliseconds(100))
          .error_code(),
      grpc::DEADLINE_EXCEEDED);
  // By its answer the daemon has read, on the same connection, that the client
  // has gone, which it may do later than the client's deadline.
  EXPECT_TRUE(Call("ServerService/GetStatistics", "").get().ok());
  background_.Release();
  v1::ListKernelsResponse list;
  grpc::ClientContext context;
  ASSERT_TRUE(v1::KernelService::NewStub(server_.channel())
                  ->ListKernels(&context, {}, &list)
                  .ok());
  EXPECT_EQ(list.kernels_size(), 1);
}

}  // namespace
}  // namespace gemmd
