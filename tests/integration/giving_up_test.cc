// Clients that give up: what the daemon itself makes of it, told by its log
// and its counters. A client gives up by itself whatever the daemon does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <future>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/eventually.h"
#include "tests/integration/raw_http2.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using testing::DaemonProcess;
using testing::Eventually;
using testing::OnesTimesTwos;

// A daemon whose compiler stops in the middle of its work and does not go on
// until it is told to.
class GivingUpTest : public ::testing::Test {
 protected:
  GivingUpTest() { EXPECT_NE(channel_, nullptr); }

  std::future<grpc::Status> Multiply(grpc::ClientContext& context) {
    return std::async(std::launch::async, [this, &context] {
      v1::MatmulResponse response;
      return v1::MatmulService::NewStub(channel_)->Matmul(
          &context, OnesTimesTwos(9, 9, 9), &response);
    });
  }

  v1::Statistics Statistics() {
    grpc::ClientContext context;
    v1::Statistics statistics;
    EXPECT_TRUE(v1::ServerService::NewStub(channel_)
                    ->GetStatistics(&context, {}, &statistics)
                    .ok());
    return statistics;
  }

  bool StopsCompile() {
    if (!Eventually([this] { return Statistics().cache().compiles() == 1; })) {
      return false;
    }
    worker_ = daemon_.StopCompiler();
    return worker_ != 0;
  }

  // How the daemon's log says that the product ended.
  bool Logs(const std::string& code) {
    return Eventually([&] {
      const std::string log = daemon_.Log();
      return absl::StrContains(log, "MatmulService/Matmul") &&
             absl::StrContains(log, "code=" + code);
    });
  }

  DaemonProcess daemon_{{"--device=host", "--nvrtc=" GEMMD_TEST_NVRTC}};
  const std::shared_ptr<grpc::Channel> channel_ = daemon_.Connect();
  pid_t worker_ = 0;  // That was stopped.
};

// Of a client that does not end the call itself, as gRPC's do, a moment before
// the daemon would.
TEST_F(GivingUpTest, TheDaemonKnowsTheDeadline) {
  testing::RawHttp2 client(daemon_.address());
  const std::string request = OnesTimesTwos(9, 9, 9).SerializeAsString();
  const uint32_t stream = client.Open("/gemmd.v1.MatmulService/Matmul", "2S");
  client.SendPrefix(stream, static_cast<uint32_t>(request.size()));
  client.Send(stream, request, true);
  ASSERT_TRUE(StopsCompile());
  // Nothing else ends it: the compile goes on.
  EXPECT_TRUE(Logs("DEADLINE_EXCEEDED")) << daemon_.Log();
  EXPECT_EQ(Statistics().failed(), 1);
  kill(worker_, SIGCONT);
}

TEST_F(GivingUpTest, TheDaemonLearnsThatAClientHasGone) {
  grpc::ClientContext context;
  auto call = Multiply(context);
  ASSERT_TRUE(StopsCompile());
  context.TryCancel();
  EXPECT_EQ(call.get().error_code(), grpc::CANCELLED);
  kill(worker_, SIGCONT);
  // The kernel comes, and is not run for nobody.
  EXPECT_TRUE(Logs("CANCELLED")) << daemon_.Log();
  EXPECT_EQ(Statistics().failed(), 1);
}

// In a clock of nanoseconds it would have passed long ago.
TEST(DeadlineTest, OneOfCenturiesHasNotPassed) {
  DaemonProcess daemon({"--device=host", "--nvrtc=" GEMMD_TEST_NVRTC});
  ASSERT_NE(daemon.Connect(), nullptr) << daemon.Log();
  const std::string request = OnesTimesTwos(2, 2, 2).SerializeAsString();
  for (const char* timeout : {"1H", "2700000H", "99999999H"}) {
    testing::RawHttp2 client(daemon.address());
    const uint32_t stream =
        client.Open("/gemmd.v1.MatmulService/Matmul", timeout);
    client.SendPrefix(stream, static_cast<uint32_t>(request.size()));
    client.Send(stream, request, true);
    EXPECT_TRUE(Eventually([&] {
      client.Read(absl::Milliseconds(10));
      return client.ended() == 1;
    })) << timeout;
    EXPECT_FALSE(absl::StrContains(daemon.Log(), "DEADLINE_EXCEEDED"))
        << timeout;
  }
}

}  // namespace
}  // namespace gemmd
