// Real processes that share a cache, and a real compiler short of memory.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "clients/cpp/client.h"
#include "jit/compile/nvrtc_compiler.h"
#include "tests/clients/warmup/run_warmup.h"
#include "tests/integration/daemon_process.h"

namespace gemmd::warmup {
namespace {

using testing::DaemonProcess;
using testing::TemporaryFolder;

// Whether `gemm-warmup compile` of one problem compiled it itself.
bool CompiledIt(const std::string& cache) {
  const Outcome outcome =
      Warmup(absl::StrCat("compile --cache-dir ", cache, " --nvrtc ",
                          GEMMD_TEST_NVRTC, " ", cache, ".problems"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  const bool compiled = absl::StrContains(outcome.output, "1 compiled");
  EXPECT_TRUE(compiled || absl::StrContains(outcome.output, "1 there already"))
      << outcome.output;
  return compiled;
}

// Whether the daemon compiled the kernel of the same problem itself.
bool CompiledIt(const DaemonProcess& daemon) {
  const auto client = client::Client::Connect(daemon.address());
  v1::Problem problem;
  problem.set_m(512);
  problem.set_n(512);
  problem.set_k(512);
  problem.set_a_type(v1::DATA_TYPE_BF16);
  problem.set_b_type(v1::DATA_TYPE_BF16);
  problem.set_b_order(v1::ORDER_COLUMN_MAJOR);
  const auto prepared = (*client)->PrepareKernels({&problem, 1});
  EXPECT_TRUE(prepared.ok()) << prepared.status();
  const auto statistics = (*client)->GetStatistics();
  EXPECT_TRUE(statistics.ok()) << statistics.status();
  return statistics->cache().compiles() > 0;
}

TEST(SharedCacheTest, TwoDaemonsAndEightProcessesCompileOnce) {
  const TemporaryFolder folder;
  const std::string cache = folder.path() + "/cache";
  std::ofstream(cache + ".problems") << "bf16 TN 512 512 512 order=row\n";
  const std::vector<std::string> flags = {
      "--device=host", "--nvrtc=" GEMMD_TEST_NVRTC, "--cache-dir=" + cache};
  DaemonProcess first(flags), second(flags);
  ASSERT_NE(first.Connect(), nullptr) << first.Log();
  ASSERT_NE(second.Connect(), nullptr) << second.Log();
  std::atomic<int> compiles = 0;
  std::vector<std::thread> racers;
  for (int i = 0; i < 8; ++i) {
    racers.emplace_back([&] { compiles += CompiledIt(cache); });
  }
  racers.emplace_back([&] { compiles += CompiledIt(first); });
  racers.emplace_back([&] { compiles += CompiledIt(second); });
  for (std::thread& racer : racers) racer.join();
  EXPECT_EQ(compiles, 1);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Under a sanitizer workers run without a limit: shadow memory would break it.
TEST(CompileWorkerTest, OneOverItsMemoryLimitFailsItsCompileOnly) {
  const jit::Instance small = {
      .name = "small",
      .source = std::string("extern \"C\" __global__ void gemmd_kernel() {}"),
      .options = {}};
  // Six megabytes of numbers, hundreds of megabytes as a syntax tree.
  std::string numbers;
  for (int i = 0; i < 3000000; ++i) numbers += "1,";
  const jit::Instance huge = {
      .name = "huge",
      .source = absl::StrCat("__device__ int numbers[] = {", numbers,
                             "};\nextern \"C\" __global__ void "
                             "gemmd_kernel(int* p) { *p = numbers[*p]; }"),
      .options = {}};
  auto compiler =
      jit::CreateNvrtcCompiler({.nvrtc_path = GEMMD_TEST_NVRTC,
                                .worker_program = GEMMD_TEST_WARMUP,
                                .worker_memory_bytes = int64_t{300} << 20});
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  const absl::Time deadline = absl::Now() + absl::Minutes(2);
  EXPECT_TRUE((*compiler)->Compile(small, deadline).ok());
  const absl::Status status = (*compiler)->Compile(huge, deadline).status();
  // NVRTC either says so or gives up with an abort.
  EXPECT_TRUE(absl::IsResourceExhausted(status) || absl::IsUnavailable(status))
      << status;
  const auto after = (*compiler)->Compile(small, deadline);
  EXPECT_TRUE(after.ok()) << after.status();
}
#endif

}  // namespace
}  // namespace gemmd::warmup
