// What the daemon does when its log cannot be written, and what it writes
// about clients.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/file.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/eventually.h"
#include "tests/integration/raw_call.h"
#include "tests/integration/test_server.h"
#include "tests/service/tls/certificates.h"

namespace gemmd {
namespace {

using testing::DaemonProcess;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::OnesTimesTwos;

const std::vector<std::string> kFlags = {"--device=host",
                                         "--nvrtc=" GEMMD_TEST_NVRTC};

struct Pipe {
  Pipe() {
    int fds[2];
    EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
    read_end = jit::UniqueFd(fds[0]);
    write_end = jit::UniqueFd(fds[1]);
  }
  // Until not a byte more fits.
  void Fill() {
    const int flags = fcntl(write_end.get(), F_GETFL);
    fcntl(write_end.get(), F_SETFL, flags | O_NONBLOCK);
    const std::string page(4096, '.');
    while (write(write_end.get(), page.data(), page.size()) > 0) {
    }
    while (write(write_end.get(), ".", 1) > 0) {
    }
    fcntl(write_end.get(), F_SETFL, flags);
  }

  jit::UniqueFd read_end;
  jit::UniqueFd write_end;
};

// A product that needs no kernel.
grpc::Status MultiplyNothing(const std::shared_ptr<grpc::Channel>& channel) {
  auto stub = v1::MatmulService::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
  v1::MatmulResponse response;
  return stub->Matmul(&context, OnesTimesTwos(0, 2, 2), &response);
}

// One that is refused, and logged.
void Fail(const std::shared_ptr<grpc::Channel>& channel) {
  auto stub = v1::TensorService::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
  v1::DeleteTensorRequest request;
  request.set_handle("nobody's");
  v1::DeleteTensorResponse response;
  EXPECT_EQ(stub->DeleteTensor(&context, request, &response).error_code(),
            grpc::NOT_FOUND);
}

// A text that is not UTF-8, of which protobuf itself has something to say.
void SendWhatIsNoText(const std::shared_ptr<grpc::Channel>& channel) {
  EXPECT_EQ(testing::CallRaw(channel, "/gemmd.v1.TensorService/DeleteTensor",
                             "\x0a\x01\xff", absl::Seconds(60))
                .error_code(),
            grpc::INVALID_ARGUMENT);
}

TEST(DaemonLogTest, APipeThatNobodyReadsStopsNobody) {
  Pipe pipe;
  pipe.Fill();
  DaemonProcess daemon(kFlags, pipe.write_end.get());
  const auto channel = daemon.Connect();
  ASSERT_NE(channel, nullptr);
  for (int i = 0; i < 100; ++i) Fail(channel);
  for (int i = 0; i < 100; ++i) SendWhatIsNoText(channel);
  EXPECT_TRUE(MultiplyNothing(channel).ok());
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
}

TEST(DaemonLogTest, APipeThatIsClosedEndsNobody) {
  Pipe pipe;
  pipe.read_end.Reset();
  DaemonProcess daemon(kFlags, pipe.write_end.get());
  const auto channel = daemon.Connect();
  ASSERT_NE(channel, nullptr);
  Fail(channel);
  EXPECT_TRUE(MultiplyNothing(channel).ok());
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
}

TEST(DaemonLogTest, WithoutAStandardErrorItsFilesAreNotItsLog) {
  DaemonProcess daemon(kFlags, DaemonProcess::kNoStderr);
  ASSERT_NE(daemon.Connect(), nullptr);
  EXPECT_EQ(std::filesystem::read_symlink(
                absl::StrCat("/proc/", daemon.pid(), "/fd/2")),
            "/dev/null");
}

TEST(DaemonLogTest, AFileThatMayNotGrowCostsOnlyTheLog) {
  rlimit usual;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &usual), 0);
  rlimit small = usual;
  small.rlim_cur = 200;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  DaemonProcess daemon(kFlags);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &usual), 0);
  const auto channel = daemon.Connect();
  ASSERT_NE(channel, nullptr);
  EXPECT_TRUE(testing::Eventually([&] { return daemon.Log().size() == 200; }))
      << daemon.Log();
  EXPECT_TRUE(MultiplyNothing(channel).ok());
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
}

// Once: the next start finds nothing to cut.
TEST(DaemonLogTest, TellsThatTheEndOfAListOfProblemsWasCutOff) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() + "/problems";
  std::ofstream(path) << "bf16 TN 1 2 3\nbf16 T" << std::string(4096, '\0');
  std::vector<std::string> flags = kFlags;
  flags.push_back("--record-problems=" + path);
  for (const bool first : {true, false}) {
    DaemonProcess daemon(flags);
    ASSERT_NE(daemon.Connect(), nullptr) << daemon.Log();
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0);
    if (first) {
      EXPECT_THAT(daemon.Log(), HasSubstr("event=problem_log_cut"));
      EXPECT_THAT(daemon.Log(), HasSubstr("bytes=4102 bytes_kept=14"));
    } else {
      EXPECT_THAT(daemon.Log(), Not(HasSubstr("problem_log_cut")));
    }
  }
}

TEST(DaemonLogTest, ManyEventsOfAKindAreCountedNotWritten) {
  DaemonProcess daemon(kFlags);
  const auto channel = daemon.Connect();
  ASSERT_NE(channel, nullptr);
  const absl::Time start = absl::Now();
  for (int i = 0; i < 1000; ++i) Fail(channel);
  absl::SleepFor(absl::Milliseconds(200));
  Fail(channel);  // Tells of those before it.
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
  const std::string log = daemon.Log();
  int lines = 0;
  for (size_t at = log.find("event=request_failed"); at != std::string::npos;
       at = log.find("event=request_failed", at + 1)) {
    ++lines;
  }
  EXPECT_GE(lines, 50);
  EXPECT_LE(lines, 50 + 10 * (seconds + 2));
  EXPECT_THAT(log, HasSubstr("suppressed="));
}

TEST(DaemonLogTest, ACertificateThatHasEndedIsToldOfAtOnce) {
  const absl::Time now = absl::Now();
  const testing::Certificate ended({.name = "one",
                                    .from = now - absl::Hours(2),
                                    .until = now - absl::Hours(1)});
  const testing::TemporaryFolder folder;
  const std::string certificate = folder.path() + "/cert";
  const std::string key = folder.path() + "/key";
  std::ofstream(certificate) << ended.Pem();
  std::ofstream(key) << ended.KeyPem();
  DaemonProcess daemon({"--device=host", "--tls-certificate-file", certificate,
                        "--tls-key-file", key});
  EXPECT_TRUE(testing::Eventually([&] {
    return absl::StrContains(daemon.Log(), "event=certificate_refused");
  })) << daemon.Log();
}

TEST(DaemonLogTest, ClientsThatLeaveAreNotBlamedForTheirRequests) {
  DaemonProcess daemon(kFlags);
  const auto channel = daemon.Connect();
  auto stub = v1::TensorService::NewStub(channel);
  // One that leaves too soon never reaches the daemon.
  const absl::Time end = absl::Now() + absl::Seconds(60);
  while (daemon.Log().find("UploadTensor") == std::string::npos) {
    ASSERT_LT(absl::Now(), end) << "no call is logged";
    grpc::ClientContext context;
    v1::TensorInfo info;
    auto upload = stub->UploadTensor(&context, &info);
    absl::SleepFor(absl::Milliseconds(100));
    context.TryCancel();
    EXPECT_EQ(upload->Finish().error_code(), grpc::CANCELLED);
  }
  EXPECT_TRUE(MultiplyNothing(channel).ok());
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
  EXPECT_THAT(daemon.Log(), HasSubstr("code=CANCELLED"));
  EXPECT_THAT(daemon.Log(), Not(HasSubstr("code=INVALID_ARGUMENT")));
}

}  // namespace
}  // namespace gemmd
