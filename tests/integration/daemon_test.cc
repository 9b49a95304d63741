// The daemon as operators meet it: flags, signals, exit codes, and what it
// does without a GPU, without NVRTC and without a cache directory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "tests/few_threads.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using ::testing::ContainsRegex;
using testing::DaemonProcess;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::OnesTimesTwos;

constexpr char kNvrtc[] = "--nvrtc=" GEMMD_TEST_NVRTC;
constexpr char kNoNvrtc[] = "--nvrtc=none";

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

// As deploy/README.md tells who looks which thread is busy.
TEST(DaemonTest, ThreadsHaveNames) {
  DaemonProcess daemon({kNoNvrtc, "--device=host"});
  ASSERT_NE(daemon.Connect(), nullptr) << daemon.Log();
  std::set<std::string> names;
  for (const auto& thread : std::filesystem::directory_iterator(
           absl::StrCat("/proc/", daemon.pid(), "/task"))) {
    std::ifstream file(thread.path() / "comm");
    std::string name;
    if (std::getline(file, name)) names.insert(name);
  }
  for (const char* name : {"network", "lane", "pool", "listener", "health"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(DaemonTest, CompilesOnceAndRunsCachedKernelsWithoutACompiler) {
  const testing::TemporaryFolder folder;
  const std::string cache = "--cache-dir=" + folder.path() + "/cache";
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
  DaemonProcess daemon(
      {"--device=host", kNvrtc, "--cache-dir=/proc/none/cache"});
  Client client(daemon);
  EXPECT_THAT(daemon.Log(),
              HasSubstr("cache directory /proc/none/cache: cannot create"));
  const grpc::Status status = client.Multiply(OnesTimesTwos(9, 9, 9));
  ASSERT_TRUE(status.ok()) << status.error_message();
  // The entry is stored behind the request's back.
  const absl::Time start = absl::Now();
  while (client.Statistics().cache().write_errors() == 0) {
    ASSERT_LT(absl::Now() - start, absl::Seconds(30));
    absl::SleepFor(absl::Milliseconds(20));
  }
}

// What a daemon says, after `limits` of a shell, that ends with `code`: by
// itself, or in three seconds when it is told to.
std::string SaidUnder(const std::string& limits, int code = 1) {
  const std::string line =
      absl::StrCat(limits, "; exec timeout --preserve-status ",
                   code == 0 ? 3 : 20, " " GEMMD_TEST_DAEMON
                   " --listen=127.0.0.1:0 --device=host --cache-dir= ",
                   code == 0 ? kNvrtc : kNoNvrtc, " 2>&1");
  FILE* const daemon = popen(line.c_str(), "r");
  CHECK(daemon != nullptr);
  std::string said;
  for (char part[256]; fgets(part, sizeof part, daemon) != nullptr;) {
    said += part;
  }
  EXPECT_EQ(WEXITSTATUS(pclose(daemon)), code);
  return said;
}

// Not until it is out of them somewhere, which would end it there.
TEST(DaemonTest, TooFewFilesAreToldAtTheStart) {
  EXPECT_THAT(SaidUnder("ulimit -n 20"),
              HasSubstr("the process may open 20 files (ulimit -n); "
                        "allowed: 64 or more"));
}

// One that has NVRTC takes more at its start.
TEST(DaemonTest, ItsThreadsHaveStacksWhateverTheLimit) {
  EXPECT_THAT(SaidUnder("ulimit -s 64", 0), HasSubstr("event=serving"));
}

// Nor until a library waits for ever for one of its own.
TEST(DaemonTest, TooFewThreadsAreToldAtTheStart) {
  if (!testing::FewThreads::kPossible) {
    GTEST_SKIP() << "a sanitizer's own memory leaves no room for a limit";
  }
  EXPECT_THAT(SaidUnder("ulimit -s 8192; ulimit -v 600000"),
              ContainsRegex("the process may start [0-9]+ threads .*; "
                            "allowed: [0-9]+ or more"));
}

// Else they would be too few without being told.
TEST(DaemonTest, ItStartsNoMoreThreadsThanItAsksFor) {
  if (!testing::FewThreads::kPossible) {
    GTEST_SKIP() << "a sanitizer's own memory leaves no room for a limit";
  }
  const std::string said = SaidUnder("ulimit -s 8192; ulimit -v 600000");
  const size_t at = said.find("allowed: ");
  ASSERT_NE(at, said.npos) << said;
  const int allowed = std::atoi(said.c_str() + at + sizeof "allowed: " - 1);
  const testing::TemporaryFolder models;
  DaemonProcess daemon({"--device=host", kNvrtc, "--metrics-listen=127.0.0.1:0",
                        "--model-repository=" + models.path()});
  ASSERT_NE(daemon.Connect(), nullptr) << daemon.Log();
  const std::filesystem::directory_iterator threads(
      absl::StrCat("/proc/", daemon.pid(), "/task"));
  EXPECT_LE(std::distance(begin(threads), end(threads)), allowed);
}

TEST(DaemonTest, SigtermFinishesWhatRunsAndExitsZero) {
  DaemonProcess daemon({"--device=host", kNvrtc});
  Client client(daemon);
  ASSERT_TRUE(client.Multiply(OnesTimesTwos(600, 600, 600)).ok());
  auto running = std::async(std::launch::async, [&] {
    return client.Multiply(OnesTimesTwos(600, 600, 5000));
  });
  Client observer(daemon);
  while (observer.Statistics().received_bytes() < 2 * 600 * 5000) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  daemon.Signal(SIGTERM);
  const grpc::Status status = running.get();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(daemon.Wait(), 0) << daemon.Log();
  EXPECT_THAT(daemon.Log(), HasSubstr("event=stopped"));
}

// As nohup ignores SIGHUP, some ignore SIGCHLD for whom they start.
TEST(DaemonTest, HowACompileWorkerEndedIsToldToWhoeverStartedIt) {
  setenv("GEMMD_FAKE_NVRTC", "crash", 1);
  signal(SIGCHLD, SIG_IGN);
  DaemonProcess daemon({"--device=host", "--nvrtc=" GEMMD_TEST_FAKE_NVRTC});
  signal(SIGCHLD, SIG_DFL);
  unsetenv("GEMMD_FAKE_NVRTC");
  EXPECT_THAT(Client(daemon).Multiply(OnesTimesTwos(8, 8, 8)).error_message(),
              HasSubstr("the compile worker died of signal 6"));
}

TEST(DaemonTest, BadFlagsAreNamed) {
  for (const auto& [flag, says] : {
           std::pair{"--lanes=0", "--lanes is 0; allowed: 1 to 16"},
           {"--queue=0", "--queue is 0"},
           {"--max-message-bytes=2GiB",
            "--max-message-bytes is 2GiB; allowed: 1MiB to 2147483647"},
           {"--max-inflight-bytes=1MiB", "allowed: from 1GiB"},
           {"--tensor-ttl=0", "--tensor-ttl is 0; allowed: 1s to"},
           {"--drain-timeout=30",
            "--drain-timeout is 30; allowed: a time with its unit"},
           {"--drain-timeout-ms=300", "did you mean --drain-timeout?"},
           {"--listen=", "--listen is empty"},
           {"--listen=127.0.0.1", "127.0.0.1: it has no port"},
           {"--listen=127.0.0.1:99999", "its port is '99999'"},
           {"--nvrtc=/nonexistent", "--nvrtc is /nonexistent: libnvrtc was"},
           {"--config=/nonexistent", "/nonexistent"},
           {"--device=tpu", "--device"},
           {"--host-arithmetic=exact", "--host-arithmetic"},
           {"--host-model=b200", "--host-model"},
           {"--listen=0.0.0.0:0", "--allow-plaintext-nonloopback"},
       }) {
    DaemonProcess daemon({"--device=host", kNoNvrtc, flag});
    EXPECT_EQ(daemon.Wait(), 2) << flag;
    EXPECT_THAT(daemon.Log(), HasSubstr(says));
  }
}

TEST(DaemonTest, SaysThatItIsForcedToPlaintext) {
  DaemonProcess daemon({"--device=host", kNoNvrtc, "--listen=0.0.0.0:0",
                        "--allow-plaintext-nonloopback"});
  ASSERT_NE(daemon.Connect(), nullptr);
  EXPECT_THAT(daemon.Log(), HasSubstr("event=plaintext address=0.0.0.0:0"));
}

TEST(DaemonTest, SaysThatASocketIsOpenToEverybody) {
  const testing::TemporaryFolder directory;  // For its owner alone.
  const std::string open = absl::StrCat("/tmp/gemmd_open_", getpid());
  DaemonProcess daemon(
      {"--device=host", kNoNvrtc,
       absl::StrCat("--listen=unix:", open, ",unix:", directory.path(), "/s")});
  ASSERT_NE(daemon.Connect(), nullptr);
  EXPECT_THAT(
      daemon.Log(),
      AllOf(HasSubstr(absl::StrCat("event=open_socket address=unix:", open)),
            Not(HasSubstr(absl::StrCat("event=open_socket address=unix:",
                                       directory.path())))));
}

TEST(DaemonTest, HelpAndVersionAreNoFailures) {
  for (const char* word : {"--help", "-h", "--version"}) {
    DaemonProcess daemon({word});
    EXPECT_EQ(daemon.Wait(), 0) << daemon.Log();
  }
}

TEST(DaemonTest, ReadsAConfigurationFile) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() + "/gemmd.toml";
  std::ofstream(path) << "device = \"host\"\nnvrtc = \"none\"\n"
                         "max-message-bytes = \"1MiB\"\ntensor-ttl = 90s\n";
  DaemonProcess daemon({"--config=" + path, "--max-message-bytes=2MiB"});
  Client client(daemon);
  const v1::ServerInfo info = client.Info();
  EXPECT_EQ(info.devices(0).name(), "host");
  EXPECT_FALSE(info.can_compile());
  EXPECT_EQ(info.limits().tensor_ttl_s(), 90);
  EXPECT_EQ(info.limits().max_message_bytes(), 2 << 20);
}

TEST(DaemonTest, UnderstandsTheFormerSpellings) {
  DaemonProcess daemon(
      {"--device=host", kNoNvrtc, "--max_message_bytes", "1048576"});
  Client client(daemon);
  const v1::ServerInfo info = client.Info();
  EXPECT_EQ(info.limits().max_message_bytes(), 1 << 20);
}

TEST(DaemonTest, TwoDaemonsDoNotShareAPort) {
  DaemonProcess first({"--device=host", kNoNvrtc});
  ASSERT_NE(first.Connect(), nullptr);
  DaemonProcess second(
      {"--device=host", kNoNvrtc, "--listen=" + first.address()});
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.Log(), HasSubstr("cannot listen on " + first.address() +
                                      ": Address already in use"));
}

// The grace period is for clients of a daemon that has served.
TEST(DaemonTest, AStartThatFailsWaitsForNobody) {
  DaemonProcess first({"--device=host", kNoNvrtc});
  ASSERT_NE(first.Connect(), nullptr);
  DaemonProcess second({"--device=host", kNoNvrtc, "--drain-grace=1h",
                        "--metrics-listen=" + first.address()});
  EXPECT_EQ(second.Wait(), 1);
}

// Libraries that the loader brings before main().
std::string LoadedLibraries() {
  FILE* ldd = popen("ldd " GEMMD_TEST_DAEMON, "r");
  if (ldd == nullptr) return "";
  std::string text;
  char buffer[4096];
  while (const size_t count = fread(buffer, 1, sizeof buffer, ldd)) {
    text.append(buffer, count);
  }
  EXPECT_EQ(pclose(ldd), 0);
  return text;
}

TEST(DaemonTest, LinksNoCudaLibrary) {
  const std::string libraries = LoadedLibraries();
  EXPECT_THAT(libraries, HasSubstr("libopenblas"));
  for (const char* absent : {"libcuda", "libcudart", "libnvrtc", "libcublas"}) {
    EXPECT_THAT(libraries, Not(HasSubstr(absent)));
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// To load them took longer than the rest of a start: proto/grpc.cmake.
TEST(DaemonTest, HoldsGrpcItself) {
  const std::string libraries = LoadedLibraries();
  EXPECT_THAT(libraries, HasSubstr("libopenblas"));
  for (const char* absent : {"libgrpc", "libprotobuf", "libabsl"}) {
    EXPECT_THAT(libraries, Not(HasSubstr(absent)));
  }
}
#endif

}  // namespace
}  // namespace gemmd
