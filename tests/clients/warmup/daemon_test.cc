// gemm-warmup and a running daemon: what one prepares, the other uses.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "clients/cpp/client.h"
#include "tests/clients/warmup/run_warmup.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/eventually.h"

namespace gemmd::warmup {
namespace {

using testing::DaemonProcess;
using testing::TemporaryFolder;

constexpr char kNvrtc[] = "--nvrtc=" GEMMD_TEST_NVRTC;
constexpr char kProblems[] =
    "bf16 TN 64 64 64 order=row\nbf16 NN 64 64 64 d=f32 beta=1\n";

class WarmupDaemonTest : public ::testing::Test {
 protected:
  WarmupDaemonTest() { std::ofstream(Path("problems")) << kProblems; }

  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_.path(), "/", name);
  }

  std::string CacheFlag(const std::string& name) const {
    return absl::StrCat("--cache-dir=", Path(name));
  }

  const TemporaryFolder folder_;
};

// The product of the first line of kProblems, with bytes.
absl::StatusOr<client::Result> Multiply(const std::string& address) {
  absl::StatusOr<std::unique_ptr<client::Client>> client =
      client::Client::Connect(address);
  if (!client.ok()) return client.status();
  client::Product product;
  product.problem.set_m(64);
  product.problem.set_n(64);
  product.problem.set_k(64);
  product.problem.set_a_type(v1::DATA_TYPE_BF16);
  product.problem.set_b_type(v1::DATA_TYPE_BF16);
  product.problem.set_b_order(v1::ORDER_COLUMN_MAJOR);
  const std::string zeros(64 * 64 * 2, '\0');
  product.a = client::Operand::Bytes(zeros);
  product.b = client::Operand::Bytes(zeros);
  return (*client)->Matmul(product);
}

TEST_F(WarmupDaemonTest, LoadsKernelsOnARunningDaemon) {
  DaemonProcess daemon({"--device=host", kNvrtc, CacheFlag("cache")});
  ASSERT_NE(daemon.Connect(), nullptr) << daemon.Log();
  const std::string command =
      absl::StrCat("load --server ", daemon.address(), " ", Path("problems"));
  const Outcome first = Warmup(command);
  EXPECT_EQ(first.code, 0) << first.output;
  EXPECT_TRUE(
      absl::StrContains(first.output, "2 kernels loaded, 2 of them compiled"))
      << first.output;
  EXPECT_TRUE(absl::StrContains(Warmup(command).output,
                                "2 kernels loaded, 0 of them compiled"));
  const auto result = Multiply(daemon.address());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->execution.cubin_source(), v1::CUBIN_SOURCE_LOADED);
}

// One compile that hangs does not hold up the others.
TEST_F(WarmupDaemonTest, LoadsSeveralProblemsAtATime) {
  if (std::thread::hardware_concurrency() < 2) {
    GTEST_SKIP() << "one core: a daemon compiles one kernel at a time";
  }
  DaemonProcess daemon({"--device=host", kNvrtc, CacheFlag("cache")});
  ASSERT_NE(daemon.Connect(), nullptr) << daemon.Log();
  auto load = std::async(std::launch::async, [&] {
    return Warmup(absl::StrCat("load --server ", daemon.address(), " ",
                               Path("problems")));
  });
  const auto client = client::Client::Connect(daemon.address());
  ASSERT_TRUE(client.ok()) << client.status();
  const auto compiles = [&](int64_t count) {
    return testing::Eventually([&] {
      const auto statistics = (*client)->GetStatistics();
      return statistics.ok() && statistics->cache().compiles() >= count;
    });
  };
  EXPECT_TRUE(compiles(1));
  const pid_t worker = daemon.StopCompiler();
  ASSERT_NE(worker, 0);
  EXPECT_TRUE(compiles(2));
  kill(worker, SIGCONT);
  const Outcome outcome = load.get();
  EXPECT_EQ(outcome.code, 0) << outcome.output;
}

// UNAVAILABLE is what a daemon that has gone leaves, too.
TEST_F(WarmupDaemonTest, ACompilerThatCrashesCostsItsKernelOnly) {
  std::ofstream(Path("problems"), std::ios::trunc)
      << "f16 TN 64 64 64 order=row\nbf16 TN 64 64 64 order=row\n";
  setenv("GEMMD_FAKE_NVRTC", "crash:.f32.f16.f16", 1);
  DaemonProcess daemon(
      {"--device=host", "--nvrtc=" GEMMD_TEST_FAKE_NVRTC, CacheFlag("cache")});
  unsetenv("GEMMD_FAKE_NVRTC");
  ASSERT_NE(daemon.Connect(), nullptr) << daemon.Log();
  const Outcome outcome = Warmup(absl::StrCat(
      "load --jobs 1 --server ", daemon.address(), " ", Path("problems")));
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output, "1 kernels loaded"))
      << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output, "1 failed")) << outcome.output;
}

// A daemon that may not compile has just the kernels of these problems: an
// option that is lost on the way to it asks for another.
TEST_F(WarmupDaemonTest, AsksTheDaemonForAllThatAProblemSays) {
  std::ofstream(Path("problems"), std::ios::trunc)
      << "f16 TN 64 64 64 acc=f16\ns8 TN 64 64 64 saturate\n"
         "f32 TN 64 64 64 precision=tf32\ne4m3 TN 64 64 64 precision=fast "
         "d=e5m2 batch=3 broadcast=b\nbf16 TN 64 64 64 order=row invariant\n";
  ASSERT_EQ(Warmup(absl::StrCat("compile ", CacheFlag("cache"), " ", kNvrtc,
                                " ", Path("problems")))
                .code,
            0);
  DaemonProcess daemon({"--device=host", "--nvrtc=none", "--require-complete",
                        CacheFlag("cache")});
  ASSERT_NE(daemon.Connect(), nullptr) << daemon.Log();
  const Outcome outcome = Warmup(
      absl::StrCat("load --server ", daemon.address(), " ", Path("problems")));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output, "5 problems: 5 kernels loaded"))
      << outcome.output;
}

// One that is lost on the way would load kernels on every device.
TEST_F(WarmupDaemonTest, LoadsOnTheDeviceThatIsNamed) {
  DaemonProcess daemon({"--device=host", kNvrtc, CacheFlag("cache")});
  ASSERT_NE(daemon.Connect(), nullptr) << daemon.Log();
  const auto load = [&](const std::string& device) {
    return Warmup(absl::StrCat("load --device ", device, " --server ",
                               daemon.address(), " ", Path("problems")));
  };
  const Outcome other = load("cuda:7");
  EXPECT_EQ(other.code, 1) << other.output;
  EXPECT_TRUE(absl::StrContains(other.output, "device is unknown"))
      << other.output;
  EXPECT_TRUE(absl::StrContains(other.output, "0 kernels loaded"))
      << other.output;
  const Outcome host = load("host");
  EXPECT_EQ(host.code, 0) << host.output;
  EXPECT_TRUE(absl::StrContains(host.output, "2 kernels loaded"))
      << host.output;
}

TEST_F(WarmupDaemonTest, SaysThatNoDaemonAnswers) {
  const Outcome outcome =
      Warmup(absl::StrCat("load --wait 1s --server unix:", folder_.path(),
                          "/none ", Path("problems")));
  EXPECT_EQ(outcome.code, 1) << outcome.output;
}

// Whether or not a daemon answers.
TEST_F(WarmupDaemonTest, AWrongPresetIsAWrongCommandLine) {
  for (const char* command : {"load", "tune"}) {
    for (const char* preset :
         {"--preset nobody", "--preset llama-3-8b --preset-tokens 0"}) {
      const Outcome outcome = Warmup(
          absl::StrCat(command, " --wait 1s --server unix:", folder_.path(),
                       "/none ", preset));
      EXPECT_EQ(outcome.code, 2) << outcome.output;
    }
  }
}

// From the start of the process to the answer to its first request.
TEST_F(WarmupDaemonTest, ADaemonOnABundleCompilesNothingAndAnswersAtOnce) {
  ASSERT_EQ(Warmup(absl::StrCat("compile ", CacheFlag("cache"), " ", kNvrtc,
                                " ", Path("problems")))
                .code,
            0);
  ASSERT_EQ(
      Warmup(absl::StrCat("export ", CacheFlag("cache"), " ", Path("bundle")))
          .code,
      0);
  ASSERT_EQ(
      Warmup(absl::StrCat("import ", CacheFlag("other"), " ", Path("bundle")))
          .code,
      0);
  const absl::Time start = absl::Now();
  DaemonProcess daemon({"--device=host", "--nvrtc=none", "--require-complete",
                        CacheFlag("other")});
  ASSERT_NE(daemon.Connect(), nullptr) << daemon.Log();
  const auto result = Multiply(daemon.address());
  const absl::Duration took = absl::Now() - start;
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->execution.cubin_source(), v1::CUBIN_SOURCE_DISK);
  EXPECT_LT(took, absl::Seconds(1));
  const auto client = client::Client::Connect(daemon.address());
  const auto statistics = (*client)->GetStatistics();
  ASSERT_TRUE(statistics.ok()) << statistics.status();
  const v1::CacheStatistics& cache = statistics->cache();
  EXPECT_EQ(cache.compiles(), 0);
  ASSERT_EQ(cache.tiers_size(), 1);
  const v1::TierStatistics& disk = cache.tiers(0);
  EXPECT_EQ(disk.name(), "disk");
  EXPECT_EQ(disk.hits(), cache.disk_hits());
  EXPECT_GE(disk.hits(), 1);
  EXPECT_EQ(disk.errors(), 0);
  EXPECT_GT(disk.bytes_loaded(), 1000);
  EXPECT_EQ(disk.bytes_stored(), 0);
  EXPECT_GT(disk.load_us(), 0);
  // What was not prepared is refused, by name.
  v1::Problem problem;
  problem.set_m(4096);
  problem.set_n(4096);
  problem.set_k(4096);
  problem.set_a_type(v1::DATA_TYPE_F16);
  problem.set_b_type(v1::DATA_TYPE_F16);
  const absl::Status missing =
      (*client)->PrepareKernels({&problem, 1}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(missing)) << missing;
  EXPECT_TRUE(absl::StrContains(missing.message(), "gemm_f16")) << missing;
  EXPECT_TRUE(absl::StrContains(missing.message(), "f16 NN 4096x4096x4096"))
      << missing;
}

TEST_F(WarmupDaemonTest, CompilesWhatADaemonRecorded) {
  {
    DaemonProcess daemon({"--device=host", kNvrtc, CacheFlag("cache"),
                          "--record-problems=" + Path("recorded")});
    ASSERT_NE(daemon.Connect(), nullptr) << daemon.Log();
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(Multiply(daemon.address()).ok());
    }
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0);
  }
  std::ifstream file(Path("recorded"));
  std::string line, more;
  ASSERT_TRUE(std::getline(file, line));
  EXPECT_EQ(line, "bf16 TN 64 64 64 order=row");
  EXPECT_FALSE(std::getline(file, more)) << more;
  const Outcome outcome = Warmup(absl::StrCat(
      "compile ", CacheFlag("cache"), " ", kNvrtc, " ", Path("recorded")));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output, "1 there already"))
      << outcome.output;
}

}  // namespace
}  // namespace gemmd::warmup
