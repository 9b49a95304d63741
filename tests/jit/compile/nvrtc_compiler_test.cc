// Compiles through the NVRTC that deploy/setup.sh installed.
#include "jit/compile/nvrtc_compiler.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/cache/cache_key.h"
#include "jit/compile/compile_log.h"
#include "jit/compile/confine.h"
#include "jit/compile/cubin.h"
#include "jit/compile/nvrtc_library.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

namespace fs = std::filesystem;

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

// A folder with a fake NVRTC, as a toolkit or a wheel installs it.
class FakeNvrtcTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }

  void Install(const std::string& folder) {
    fs::create_directory(Path(folder));
    fs::copy(GEMMD_TEST_FAKE_NVRTC "/libnvrtc.so.13",
             Path(folder + "/libnvrtc.so.13"));
    fs::copy(GEMMD_TEST_FAKE_NVRTC "/libnvrtc.so.13",
             Path(folder + "/libnvrtc-builtins.so.13.0"));
  }

  // Older than a tick of the clock, so that it may be remembered.
  void InstallLongAgo(const std::string& folder) {
    Install(folder);
    absl::SleepFor(absl::Milliseconds(2100));
  }

  absl::StatusOr<FoundNvrtc> Find(const std::string& path) const {
    return FindNvrtc({.path = Path(path)}, Path("cache"));
  }

  std::unique_ptr<Compiler> Open(const std::string& folder,
                                 const std::string& memory = "") {
    auto compiler =
        CreateNvrtcCompiler({.nvrtc_path = Path(folder),
                             .worker_program = GEMMD_TEST_NVRTC_WORKER,
                             .memory = memory});
    EXPECT_TRUE(compiler.ok()) << compiler.status();
    return *std::move(compiler);
  }

  const TemporaryDirectory directory_;
};

TEST_F(FakeNvrtcTest, IdentityIsThatOfTheContentHoweverItIsInstalled) {
  Install("wheel");
  Install("toolkit");
  for (const char* name : {"libnvrtc.so.13", "libnvrtc-builtins.so.13.0"}) {
    const std::string file = Path("toolkit/" + std::string(name));
    fs::rename(file, file + ".88");
    fs::create_symlink(std::string(name) + ".88", file);
  }
  EXPECT_EQ(Open("wheel")->identity(), Open("toolkit")->identity());
  std::ofstream(Path("toolkit/libnvrtc-builtins.so.13.0"), std::ios::app)
      << "x";
  EXPECT_NE(Open("wheel")->identity(), Open("toolkit")->identity());
}

TEST_F(FakeNvrtcTest, IsNotLoadedWhereItIsRemembered) {
  InstallLongAgo("nvrtc");
  for (const char* path : {"nvrtc", "nvrtc/libnvrtc.so.13", "nvrtc"}) {
    const bool first = !fs::exists(Path("cache"));
    const auto found = Find(path);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->loaded, first) << path;
    EXPECT_EQ(found->files.version(), (NvrtcVersion{13, 0}));
    EXPECT_EQ(found->files.file(), Path("nvrtc/libnvrtc.so.13"));
    EXPECT_GE(found->files.builtins_file(), 0);
    EXPECT_EQ(found->files.ReadIdentity(Path("cache")),
              Open("nvrtc")->identity());
  }
  // Elsewhere nothing is known, and without a memory nowhere.
  EXPECT_TRUE(FindNvrtc({.path = Path("nvrtc")}, Path("other"))->loaded);
  EXPECT_TRUE(FindNvrtc({.path = Path("nvrtc")}, "")->loaded);
}

TEST_F(FakeNvrtcTest, OneOfWhichAFileHasJustChangedIsNotRemembered) {
  InstallLongAgo("nvrtc");
  for (const char* name : {"libnvrtc.so.13", "libnvrtc-builtins.so.13.0"}) {
    absl::Time changed;
    bool loaded;
    do {  // Until this process was not held up for longer than a tick.
      changed = absl::Now();
      std::ofstream(Path("nvrtc/") + name, std::ios::app) << "x";
      EXPECT_TRUE(Find("nvrtc")->loaded);
      loaded = Find("nvrtc")->loaded;
    } while (absl::Now() - changed > absl::Seconds(1));
    EXPECT_TRUE(loaded) << name;
    absl::SleepFor(absl::Milliseconds(2100));
  }
}

TEST_F(FakeNvrtcTest, AnyChangeOfEitherFileIsNoticed) {
  const std::string library = Path("nvrtc/libnvrtc.so.13");
  const std::string builtins = Path("nvrtc/libnvrtc-builtins.so.13.0");
  InstallLongAgo("nvrtc");
  const std::string before = Find("nvrtc")->files.ReadIdentity();
  ASSERT_FALSE(Find("nvrtc")->loaded);
  for (const std::string& file : {library, builtins}) {
    // With its size and time of modification put back.
    const auto modified = fs::last_write_time(file);
    std::ofstream(file, std::ios::in | std::ios::out | std::ios::ate)
        .seekp(-1, std::ios::end)
        .put('x');
    fs::last_write_time(file, modified);
    EXPECT_TRUE(Find("nvrtc")->loaded) << file;
    EXPECT_NE(Open("nvrtc", Path("cache"))->identity(), before) << file;
    absl::SleepFor(absl::Milliseconds(2100));
    EXPECT_TRUE(Find("nvrtc").ok());
    EXPECT_FALSE(Find("nvrtc")->loaded) << file;
  }
  // The same name, another file, or none.
  fs::copy(library, Path("copy"));
  fs::rename(Path("copy"), library);
  EXPECT_TRUE(Find("nvrtc")->loaded);
  fs::remove(builtins);
  EXPECT_TRUE(Find("nvrtc")->loaded);
  fs::remove(library);
  EXPECT_FALSE(Find("nvrtc").ok());
}

TEST_F(FakeNvrtcTest, ANoteThatSaysSomethingElseIsPassedOver) {
  InstallLongAgo("nvrtc");
  const absl::StatusOr<FoundNvrtc> found = Find("nvrtc");
  const auto stamp = StampOf(found->files.library_file());
  const auto builtins = StampOf(found->files.builtins_file());
  const std::string name = NameOf("nvrtc", *stamp);
  const std::string right = "13.0 " + NameOf("builtins", *builtins);
  const FileNotes notes(Path("cache"));
  ASSERT_EQ(notes.Recall(name), right);
  for (const std::string& wrong :
       {std::string("13.0"), "13.0 " + NameOf("builtins", *stamp),
        "13.1 " + NameOf("builtins", *builtins), right + "x", std::string("13"),
        std::string("../../13.0"), std::string(200, '9'),
        std::string("-1.99999999999 "), std::string(1, '\0')}) {
    notes.Note(name, *stamp, wrong);
    ASSERT_EQ(notes.Recall(name), wrong);
    EXPECT_TRUE(Find("nvrtc")->loaded) << wrong;
    EXPECT_EQ(notes.Recall(name), right) << wrong;
  }
}

TEST_F(FakeNvrtcTest, OneThatIsRememberedCompilesAndIsNoticedWhenOverwritten) {
  InstallLongAgo("nvrtc");
  ASSERT_TRUE(Find("nvrtc")->loaded);
  const auto compiler = Open("nvrtc", Path("cache"));
  EXPECT_TRUE(compiler->Compile({.name = "test", .source = ""}, Soon()).ok());
  std::ofstream(Path("nvrtc/libnvrtc.so.13"), std::ios::app) << "x";
  EXPECT_TRUE(absl::IsUnavailable(
      compiler->Compile({.name = "test", .source = ""}, Soon()).status()));
}

TEST_F(FakeNvrtcTest, ACompileThatNeverEndsIsKilledAndHoldsUpNoOther) {
  Install("nvrtc");
  auto compiler = Open("nvrtc");
  auto endless = std::async(std::launch::async, [&] {
    return compiler->Compile(
        {.name = "test", .source = "// order: loop:order\n"},
        absl::Now() + absl::Milliseconds(500));
  });
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(compiler->Compile({.name = "test", .source = ""}, Soon()).ok());
  }
  const absl::Status status = endless.get().status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(
      absl::StrContains(status.message(), "did not end in time and was killed"))
      << status;
  EXPECT_TRUE(compiler->Compile({.name = "test", .source = ""}, Soon()).ok());
  compiler.reset();
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a worker is left";
}

TEST_F(FakeNvrtcTest, TheEndDoesNotWaitForACompile) {
  Install("nvrtc");
  const auto compiler = Open("nvrtc");
  auto endless = std::async(std::launch::async, [&] {
    return compiler->Compile(
        {.name = "test", .source = "// order: loop:order\n"},
        absl::Now() + absl::Seconds(30));
  });
  compiler->GiveUp();
  EXPECT_EQ(endless.wait_for(std::chrono::seconds(20)),
            std::future_status::ready);
  EXPECT_TRUE(absl::IsUnavailable(endless.get().status()));
}

TEST_F(FakeNvrtcTest, WhatIsTooLateOrOpensFilesIsNotCompiled) {
  Install("nvrtc");
  const auto compiler = Open("nvrtc");
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      compiler->Compile({.name = "test", .source = ""}, absl::InfinitePast())
          .status()));
  const absl::Status status =
      compiler
          ->Compile({.name = "test", .source = "#include </etc/passwd>\n"},
                    Soon())
          .status();
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "refused")) << status;
}

// As a package manager does it: the new file takes the name of the old one.
TEST_F(FakeNvrtcTest, ACompilerThatIsReplacedGoesOnAsItWas) {
  Install("nvrtc");
  const auto compiler = Open("nvrtc");
  const std::string identity = compiler->identity();
  std::ofstream(Path("new")) << "another build";
  fs::rename(Path("new"), Path("nvrtc/libnvrtc.so.13"));
  fs::remove(Path("nvrtc/libnvrtc-builtins.so.13.0"));
  // The second compile ends the worker that had loaded the old file.
  for (const char* order : {"", "// order: crash", ""}) {
    const auto output =
        compiler->Compile({.name = "test", .source = order}, Soon());
    EXPECT_EQ(output.ok(), *order == '\0') << output.status();
  }
  EXPECT_EQ(compiler->identity(), identity);
}

TEST_F(FakeNvrtcTest, ACompilerThatIsOverwrittenCompilesNoMore) {
  for (const char* name : {"libnvrtc.so.13", "libnvrtc-builtins.so.13.0"}) {
    for (const bool longer : {true, false}) {
      const std::string folder = absl::StrCat(name, longer);
      Install(folder);
      const auto compiler = Open(folder);
      ASSERT_TRUE(
          compiler->Compile({.name = "test", .source = ""}, Soon()).ok());
      const std::string file = Path(folder + "/" + name);
      const auto modified = fs::last_write_time(file);
      std::ofstream(file, std::ios::in | std::ios::out | std::ios::ate)
          .seekp(longer ? 0 : -1, std::ios::end)
          .put('x');
      // Its size or its time alone tells.
      fs::last_write_time(
          file, longer ? modified : modified + std::chrono::seconds(1));
      EXPECT_TRUE(absl::IsUnavailable(
          compiler->Compile({.name = "test", .source = ""}, Soon()).status()))
          << folder;
    }
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The compiler itself tries, as one that a source has fooled would.
TEST_F(FakeNvrtcTest, AWorkerReachesNothingOfTheHost) {
  Install("nvrtc");
  std::ofstream(Path("file")) << "content";
  const UniqueFd listener(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string socket_path = Path("s");
  socket_path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address),
                 sizeof(address)),
            0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  const auto compiler = Open("nvrtc");
  std::vector<std::string> orders = {"write " + Path("new"),
                                     "write " + Path("file"),
                                     "unlink " + Path("file"),
                                     "connect " + socket_path,
                                     "exec /bin/true",
                                     absl::StrCat("own ", getpid()),
                                     "start fork",
                                     "start clone3",
                                     absl::StrCat("signal ", getpid()),
                                     absl::StrCat("limit ", getpid())};
  if (MissingConfinement().empty()) orders.push_back("read " + Path("file"));
  for (const std::string& order : orders) {
    const auto output = compiler->Compile(
        {.name = "test", .source = "// order: " + order + "\n"}, Soon());
    ASSERT_TRUE(output.ok()) << order << ": " << output.status();
    EXPECT_TRUE(
        absl::StrContains(output->log, "order: Operation not permitted") ||
        absl::StrContains(output->log, "order: Permission denied") ||
        absl::StrContains(output->log, "order: Function not implemented"))
        << order << ": " << output->log;
  }
  EXPECT_FALSE(fs::exists(Path("new")));
  EXPECT_TRUE(fs::exists(Path("file")));
  // The same in this process, which nothing confines: the orders are sound.
  const auto open =
      CreateNvrtcCompiler({.nvrtc_path = Path("nvrtc"), .worker_program = ""});
  const auto output = (*open)->Compile(
      {.name = "test", .source = "// order: " + orders[0] + "\n"}, Soon());
  EXPECT_TRUE(fs::exists(Path("new"))) << output->log;
}
#endif

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
  EXPECT_EQ(std::filesystem::path(library->files().file()).parent_path(),
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
