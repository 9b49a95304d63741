// Compiles through the NVRTC that deploy/setup.sh installed.
#include "jit/compile/nvrtc_compiler.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "jit/cache/cache_key.h"
#include "jit/compile/compile_log.h"
#include "jit/compile/cubin.h"
#include "jit/compile/nvrtc_library.h"

namespace gemmd::jit {
namespace {

constexpr char kReverse[] = R"(
extern "C" __global__ void gemmd_kernel(float* p) {
  __shared__ float s[64];
  s[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = s[63 - threadIdx.x];
})";

// 32 registers for 16 accumulators that all live across a loop and 32
// addresses: ptxas has to spill.
constexpr char kSpilling[] = R"(
extern "C" __global__ void __launch_bounds__(1024, 2) gemmd_kernel(float* p) {
  float a[40];
#pragma unroll
  for (int i = 0; i < 40; ++i) a[i] = p[i * 1024 + threadIdx.x];
#pragma unroll 1
  for (int r = 0; r < 9; ++r) {
#pragma unroll
    for (int i = 0; i < 40; ++i) a[i] = a[i] * a[(i * 7 + 3) % 40] + a[39 - i];
  }
#pragma unroll
  for (int i = 0; i < 40; ++i) p[i * 1024 + threadIdx.x] = a[i];
})";

// Touches accumulators between wgmmas of one group.
constexpr char kSerialised[] = R"(
extern "C" __global__ void __launch_bounds__(128)
gemmd_kernel(float* p, unsigned long long x, unsigned long long y) {
  float d0 = p[0], d1 = p[1], d2 = p[2], d3 = p[3];
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  for (int i = 0; i < 4; ++i) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
        : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "l"(x), "l"(y));
    d0 += 1.0f;
    x += i;
  }
  asm volatile("wgmma.commit_group.sync.aligned;");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  p[0] = d0; p[1] = d1; p[2] = d2; p[3] = d3;
})";

absl::Time Soon() { return absl::Now() + absl::Minutes(5); }

// Parameter: the worker's program; empty compiles in this process.
class NvrtcCompilerTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto compiler = CreateNvrtcCompiler(
        {.nvrtc_path = GEMMD_TEST_NVRTC, .worker_program = GetParam()});
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    compiler_ = *std::move(compiler);
  }

  absl::StatusOr<CompileOutput> Compile(const std::string& source) {
    return compiler_->Compile({.name = "test", .source = source}, Soon());
  }

  std::unique_ptr<Compiler> compiler_;
};

TEST_P(NvrtcCompilerTest, CompilesForHopper) {
  const absl::StatusOr<CompileOutput> output = Compile(kReverse);
  ASSERT_TRUE(output.ok()) << output.status();
  const absl::StatusOr<KernelResources> resources = ReadCompileLog(output->log);
  ASSERT_TRUE(resources.ok()) << resources.status();
  EXPECT_GT(resources->registers, 0);
  EXPECT_EQ(resources->static_shared_memory_bytes, 256);
  EXPECT_EQ(resources->spill_bytes, 0);
  const absl::StatusOr<CubinFacts> facts = ReadCubin(output->cubin);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->architecture, 90);
  EXPECT_EQ(facts->registers, resources->registers);
}

TEST_P(NvrtcCompilerTest, GivesTheSameBytesAgain) {
  EXPECT_EQ(Compile(kReverse)->cubin, Compile(kReverse)->cubin);
}

TEST_P(NvrtcCompilerTest, RepeatsTheWordsOfTheCompiler) {
  const absl::Status status =
      Compile("extern \"C\" __global__ void gemmd_kernel() { nonsense; }")
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(absl::StrContains(status.message(),
                                "identifier \"nonsense\" is undefined"))
      << status;
}

TEST_P(NvrtcCompilerTest, SpillsAreErrors) {
  const absl::StatusOr<CompileOutput> output = Compile(kSpilling);
  ASSERT_TRUE(output.ok()) << output.status();
  const absl::Status status = ReadCompileLog(output->log).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(absl::StrContains(status.message(), "spills")) << status;
}

TEST_P(NvrtcCompilerTest, SerialisedWgmmaIsAnError) {
  const absl::StatusOr<CompileOutput> output = Compile(kSerialised);
  ASSERT_TRUE(output.ok()) << output.status();
  const absl::Status status = ReadCompileLog(output->log).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(absl::StrContains(status.message(), "(C75")) << status;
}

TEST_P(NvrtcCompilerTest, OptionsOfAnInstanceAreNotRepeated) {
  const Instance instance = {.options = {"-arch=sm_90a", "-std=c++17"}};
  EXPECT_EQ(compiler_->CommandLine(instance),
            (std::vector<std::string>{"-arch=sm_90a", "-std=c++17",
                                      "--ptxas-options=-v", "--no-cache"}));
}

TEST_P(NvrtcCompilerTest, IdentityIsTheDigestOfTheFiles) {
  EXPECT_TRUE(absl::StartsWith(compiler_->identity(), "NVRTC 13.0 sha256:"));
  EXPECT_EQ(compiler_->identity().size(), 18 + 64);
  EXPECT_FALSE(absl::StrContains(compiler_->identity(), "/"));
  auto other = CreateNvrtcCompiler({.nvrtc_path = GEMMD_TEST_NVRTC});
  EXPECT_EQ((*other)->identity(), compiler_->identity());
}

INSTANTIATE_TEST_SUITE_P(Ways, NvrtcCompilerTest,
                         testing::Values("", GEMMD_TEST_NVRTC_WORKER),
                         [](const auto& info) {
                           return info.param.empty() ? "InProcess" : "InWorker";
                         });

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(NvrtcWorkerTest, OneThatUsesUpItsMemoryFailsItsCompileOnly) {
  auto compiler =
      CreateNvrtcCompiler({.nvrtc_path = GEMMD_TEST_NVRTC,
                           .worker_program = GEMMD_TEST_NVRTC_WORKER,
                           .worker_memory_bytes = int64_t{512} << 20});
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  // An array of a million elements, each initialised by its own expression.
  std::string elements;
  for (int i = 0; i < 1000000; ++i) elements += "1+1,";
  const absl::Status status =
      (*compiler)
          ->Compile({.source = "__device__ int a[] = {" + elements + "};"},
                    Soon())
          .status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.code(), absl::StatusCode::kInternal) << status;
  const absl::StatusOr<CompileOutput> next =
      (*compiler)->Compile({.source = kReverse}, Soon());
  EXPECT_TRUE(next.ok()) << next.status();
}
#endif

TEST(NvrtcLibraryTest, FindsTheOneOfTheBuildWithoutBeingTold) {
  const absl::StatusOr<NvrtcLibrary> library = NvrtcLibrary::Open({});
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ(std::filesystem::path(library->file()).parent_path(),
            std::filesystem::canonical(GEMMD_TEST_NVRTC));
}

TEST(NvrtcLibraryTest, SaysHowToGetIt) {
  const absl::Status status =
      NvrtcLibrary::Open({.path = "/nonexistent"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(status.message(), "nvidia-cuda-nvrtc"));
  EXPECT_TRUE(absl::StrContains(status.message(), "--nvrtc"));
}

}  // namespace
}  // namespace gemmd::jit
