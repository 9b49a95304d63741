// The daemon as operators meet it: flags, signals, exit codes, and what it
// does without a GPU, without NVRTC and without a cache directory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <fstream>
#include <future>
#include <string>

#include "absl/time/clock.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using testing::DaemonProcess;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::OnesTimesTwos;

constexpr char kNvrtc[] = "--nvrtc=" GEMMD_TEST_NVRTC;
constexpr char kNoNvrtc[] = "--nvrtc=/nonexistent";

class Client {
 public:
  explicit Client(DaemonProcess& daemon) : channel_(daemon.Connect()) {}

  grpc::Status Multiply(const v1::MatmulRequest& request) {
    auto stub = v1::MatmulService::NewStub(channel_);
    grpc::ClientContext context;
    return stub->Matmul(&context, request, &response);
  }

  v1::ServerInfo Info() {
    auto stub = v1::ServerService::NewStub(channel_);
    grpc::ClientContext context;
    v1::ServerInfo info;
    EXPECT_TRUE(stub->GetServerInfo(&context, {}, &info).ok());
    return info;
  }

  v1::Statistics Statistics() {
    auto stub = v1::ServerService::NewStub(channel_);
    grpc::ClientContext context;
    v1::Statistics statistics;
    EXPECT_TRUE(stub->GetStatistics(&context, {}, &statistics).ok());
    return statistics;
  }

  v1::MatmulResponse response;

 private:
  const std::shared_ptr<grpc::Channel> channel_;
};

TEST(DaemonTest, CompilesOnceAndRunsCachedKernelsWithoutACompiler) {
  const testing::TemporaryFolder folder;
  const std::string cache = "--cache_dir=" + folder.path() + "/cache";
  {
    DaemonProcess daemon({"--device=host", kNvrtc, cache});
    Client client(daemon);
    const grpc::Status status = client.Multiply(OnesTimesTwos(9, 9, 9));
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(client.response.execution().cubin_source(),
              v1::CUBIN_SOURCE_COMPILED);
    EXPECT_TRUE(client.Info().can_compile());
    EXPECT_THAT(client.Info().compiler(), HasSubstr("NVRTC"));
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0) << daemon.Log();
  }
  DaemonProcess daemon({"--device=host", kNoNvrtc, cache});
  Client client(daemon);
  const v1::ServerInfo info = client.Info();
  EXPECT_FALSE(info.can_compile());
  ASSERT_EQ(info.missing_size(), 1);
  EXPECT_THAT(info.missing(0), HasSubstr("NVRTC"));
  EXPECT_THAT(info.missing(0), Not(HasSubstr("/nonexistent")));
  const grpc::Status cached = client.Multiply(OnesTimesTwos(9, 9, 9));
  ASSERT_TRUE(cached.ok()) << cached.error_message();
  EXPECT_EQ(client.response.execution().cubin_source(), v1::CUBIN_SOURCE_DISK);
  v1::MatmulRequest other = OnesTimesTwos(9, 9, 9);
  other.mutable_header()->mutable_problem()->set_d_type(v1::DATA_TYPE_BF16);
  const grpc::Status missed = client.Multiply(other);
  EXPECT_EQ(missed.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_THAT(missed.error_message(), HasSubstr("NVRTC"));
  EXPECT_THAT(missed.error_message(), Not(HasSubstr("/nonexistent")));
}

TEST(DaemonTest, WithoutAGpuItSaysSoAndComputesOnTheHost) {
  DaemonProcess daemon({"--device=auto", kNvrtc});
  Client client(daemon);
  const v1::ServerInfo info = client.Info();
  ASSERT_EQ(info.devices_size(), 1);
  EXPECT_EQ(info.devices(0).name(), "host");
  ASSERT_EQ(info.missing_size(), 1);
  EXPECT_THAT(info.missing(0), HasSubstr("no usable GPU"));
  EXPECT_TRUE(client.Multiply(OnesTimesTwos(2, 2, 2)).ok());
}

TEST(DaemonTest, NeverTakesTheHostForAGpu) {
  DaemonProcess daemon({"--device=cuda"});
  EXPECT_EQ(daemon.Wait(), 1);
  EXPECT_THAT(daemon.Log(), HasSubstr("--device=cuda"));
}

TEST(DaemonTest, ACacheThatCannotBeWrittenCostsOnlyTheCache) {
  const testing::TemporaryFolder folder;
  std::ofstream(folder.path() + "/file") << "in the way";
  DaemonProcess daemon(
      {"--device=host", kNvrtc, "--cache_dir=" + folder.path() + "/file/x"});
  Client client(daemon);
  const grpc::Status status = client.Multiply(OnesTimesTwos(9, 9, 9));
  ASSERT_TRUE(status.ok()) << status.error_message();
  // The entry is stored behind the request's back.
  const absl::Time start = absl::Now();
  while (client.Statistics().cache().write_errors() == 0) {
    ASSERT_LT(absl::Now() - start, absl::Seconds(30));
    absl::SleepFor(absl::Milliseconds(20));
  }
}

TEST(DaemonTest, SigtermFinishesWhatRunsAndExitsZero) {
  DaemonProcess daemon({"--device=host", kNvrtc});
  Client client(daemon);
  ASSERT_TRUE(client.Multiply(OnesTimesTwos(600, 600, 600)).ok());
  auto running = std::async(std::launch::async, [&] {
    return client.Multiply(OnesTimesTwos(600, 600, 50000));
  });
  Client observer(daemon);
  while (observer.Statistics().received_bytes() < 2 * 600 * 50000) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  daemon.Signal(SIGTERM);
  const grpc::Status status = running.get();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(daemon.Wait(), 0) << daemon.Log();
  EXPECT_THAT(daemon.Log(), HasSubstr("event=stopped"));
}

TEST(DaemonTest, BadFlagsAreNamed) {
  for (const auto& [flag, says] : {
           std::pair{"--lanes=0", "--lanes is 0; allowed: 1 to 16"},
           {"--queue=0", "--queue is 0"},
           {"--max_message_bytes=2147483648", "--max_message_bytes"},
           {"--tensor_ttl_s=0", "--tensor_ttl_s"},
           {"--device=tpu", "--device"},
           {"--listen=0.0.0.0:0", "--allow_plaintext_nonloopback"},
       }) {
    DaemonProcess daemon({"--device=host", kNoNvrtc, flag});
    EXPECT_EQ(daemon.Wait(), 2) << flag;
    EXPECT_THAT(daemon.Log(), HasSubstr(says));
  }
}

TEST(DaemonTest, TwoDaemonsDoNotShareAPort) {
  DaemonProcess first({"--device=host", kNoNvrtc});
  ASSERT_NE(first.Connect(), nullptr);
  DaemonProcess second(
      {"--device=host", kNoNvrtc, "--listen=" + first.address()});
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.Log(), HasSubstr("cannot listen on"));
}

TEST(DaemonTest, LinksNoCudaLibrary) {
  FILE* ldd = popen("ldd " GEMMD_TEST_DAEMON, "r");
  ASSERT_NE(ldd, nullptr);
  std::string text;
  char buffer[4096];
  while (const size_t count = fread(buffer, 1, sizeof buffer, ldd)) {
    text.append(buffer, count);
  }
  ASSERT_EQ(pclose(ldd), 0);
  EXPECT_THAT(text, HasSubstr("libgrpc"));
  for (const char* absent : {"libcuda", "libcudart", "libnvrtc", "libcublas"}) {
    EXPECT_THAT(text, Not(HasSubstr(absent)));
  }
}

}  // namespace
}  // namespace gemmd
