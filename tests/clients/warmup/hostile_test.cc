// gemm-warmup on caches and files that somebody else made, and on arguments
// that nobody should give.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "jit/cache/cache_key.h"
#include "jit/cache/disk_store.h"
#include "jit/compile/nvrtc_compiler.h"
#include "tests/clients/warmup/run_warmup.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::warmup {
namespace {

namespace fs = std::filesystem;

constexpr char kNvrtc[] = "--nvrtc " GEMMD_TEST_NVRTC;
constexpr char kFakeNvrtc[] = "--nvrtc " GEMMD_TEST_FAKE_NVRTC;

class HostileTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return absl::StrCat(directory_.path(), "/", name);
  }

  Outcome OnCache(const std::string& command, const std::string& rest = "") {
    return Warmup(
        absl::StrCat(command, " --cache_dir ", Path("cache"), " ", rest));
  }

  // Stores an entry that the real compiler is said to have made.
  void Plant(const std::string& source,
             const std::vector<std::string>& options) {
    const auto compiler =
        jit::CreateNvrtcCompiler({.nvrtc_path = GEMMD_TEST_NVRTC});
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    jit::CompiledKernel kernel = jit::FakeKernel(source);
    kernel.options = options;
    kernel.compiler = (*compiler)->identity();
    kernel.key = jit::CacheKey(kernel.source, kernel.options, kernel.compiler);
    ASSERT_TRUE(
        jit::DiskStore({.directory = Path("cache")}).Store(kernel).ok());
  }

  const jit::TemporaryDirectory directory_;
};

TEST_F(HostileTest, VerifyObeysNoOptionOfAnEntry) {
  Plant("extern \"C\" __global__ void gemmd_kernel() {}",
        {"--gpu-architecture=sm_90a", "--time=" + Path("written")});
  const Outcome outcome = OnCache("verify", kNvrtc);
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_FALSE(fs::exists(Path("written"))) << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output, "is refused"))
      << outcome.output;
}

TEST_F(HostileTest, VerifyReadsNoFileThatAnEntryNames) {
  std::ofstream(Path("secret")) << "a secret of the host\n";
  Plant(absl::StrCat("#include \"", Path("secret"), "\"\n"),
        {"--gpu-architecture=sm_90a", "--std=c++20"});
  const Outcome outcome = OnCache("verify", kNvrtc);
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_FALSE(absl::StrContains(outcome.output, "secret of the host"))
      << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output, "is refused"))
      << outcome.output;
}

TEST_F(HostileTest, NoEscapeCodeOfAnEntryReachesTheTerminal) {
  jit::CompiledKernel kernel = jit::FakeKernel("source");
  kernel.name = "\033[2Jname";
  ASSERT_TRUE(jit::DiskStore({.directory = Path("cache")}).Store(kernel).ok());
  for (const char* command : {"list", "stats", "verify"}) {
    const Outcome outcome =
        OnCache(command, command == std::string("verify") ? kFakeNvrtc : "");
    EXPECT_EQ(outcome.code, 1) << outcome.output;
    EXPECT_FALSE(absl::StrContains(outcome.output, "\033")) << outcome.output;
  }
}

// A division by zero, too.
TEST_F(HostileTest, SizesThatNoKernelCountsAreRefused) {
  std::ofstream(Path("problems"))
      << "bf16 TN 1073741824 1073741824 64 batch=1073741824\n";
  for (const auto& [command, flag] :
       {std::pair("check ", ""), std::pair("compile ", kFakeNvrtc)}) {
    const Outcome outcome =
        OnCache(command, absl::StrCat(flag, " ", Path("problems")));
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_TRUE(absl::StrContains(
        outcome.output, "line 1: problem.batch * ceil(problem.m / 64) * "))
        << outcome.output;
  }
}

TEST_F(HostileTest, AGpuHasTwoMultiprocessorsOrMore) {
  ASSERT_TRUE(jit::DiskStore({.directory = Path("cache")})
                  .Store(jit::FakeKernel("source"))
                  .ok());
  std::ofstream(Path("problems")) << "bf16 TN 4096 4096 4096\n"
                                     "bf16-s4 TN 16 4096 4096\n"
                                     "f32 TN 64 64 65536\n";
  const auto check = [&](int count) {
    return OnCache("check", absl::StrCat("--multiprocessors ", count, " ",
                                         Path("problems")));
  };
  const Outcome one = check(1);
  EXPECT_EQ(one.code, 2) << one.output;
  EXPECT_TRUE(absl::StrContains(one.output,
                                "--multiprocessors is 1; allowed: 2 to 4096"))
      << one.output;
  for (const int count : {2, 3, 7, 17, 4096}) {
    const Outcome outcome = check(count);
    EXPECT_TRUE(absl::StrContains(outcome.output, " multiprocessors; "))
        << outcome.output;
  }
}

// Each of these was an exception that nobody caught, or a division by zero.
TEST_F(HostileTest, OddArgumentsAreRefusedAndNoMore) {
  ASSERT_TRUE(jit::DiskStore({.directory = Path("cache")})
                  .Store(jit::FakeKernel("source"))
                  .ok());
  std::ofstream(Path("problems")) << "bf16 TN 64 64 64\n";
  const std::string compile =
      absl::StrCat("compile --cache_dir ", Path("other"), " ", kFakeNvrtc);
  EXPECT_EQ(Warmup(absl::StrCat(compile, " ", directory_.path())).code, 1);
  EXPECT_EQ(OnCache("import", directory_.path()).code, 1);
  EXPECT_EQ(Warmup(absl::StrCat(compile, " --multiprocessors 4294967296 ",
                                Path("problems")))
                .code,
            2);
  for (const char* jobs : {"1000000", "4294967296"}) {
    const int compile_code =
        Warmup(absl::StrCat(compile, " --jobs ", jobs, " ", Path("problems")))
            .code;
    EXPECT_TRUE(compile_code == 0 || compile_code == 2) << compile_code;
    const int verify_code =
        OnCache("verify", absl::StrCat(kFakeNvrtc, " --jobs ", jobs)).code;
    EXPECT_TRUE(verify_code == 0 || verify_code == 2) << verify_code;
  }
}

// As where a file server does not answer: the folder opens, and has no names.
TEST_F(HostileTest, ACacheThatCannotBeListedIsNotTakenForEmpty) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own checks need more than four files";
#endif
  ASSERT_TRUE(jit::DiskStore({.directory = Path("cache")})
                  .Store(jit::FakeKernel("source"))
                  .ok());
  std::ofstream(Path("problems")) << "bf16 TN 64 64 64\n";
  for (const std::string& command :
       {std::string("list"), std::string("stats"),
        absl::StrCat("check ", Path("problems"))}) {
    const Outcome outcome = WarmupShell(absl::StrCat(
        "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ", "ulimit -n 4; ",
        GEMMD_TEST_WARMUP, " ", command, " --cache-dir ", Path("cache")));
    EXPECT_EQ(outcome.code, 1) << outcome.output;
    EXPECT_TRUE(absl::StrContains(outcome.output,
                                  absl::StrCat("cannot read ", Path("cache"))))
        << outcome.output;
  }
}

TEST_F(HostileTest, FailedKernelsMakeAWarmUpIncomplete) {
  std::ofstream(Path("problems")) << "bf16 TN 64 64 64\nf16 TN 64 64 64\n";
  const std::string rest = absl::StrCat(kFakeNvrtc, " ", Path("problems"));
  for (const char* order : {"reject", "crash"}) {
    ASSERT_EQ(setenv("GEMMD_FAKE_NVRTC", order, 1), 0);
    const Outcome outcome = OnCache("compile", rest);
    EXPECT_EQ(outcome.code, 1) << outcome.output;
    EXPECT_TRUE(absl::StrContains(outcome.output, "2 failed"))
        << outcome.output;
  }
  ASSERT_EQ(unsetenv("GEMMD_FAKE_NVRTC"), 0);
  const Outcome outcome = OnCache("compile", rest);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
}

TEST_F(HostileTest, DamagedEntriesMakeAVerificationFail) {
  std::ofstream(Path("problems")) << "bf16 TN 64 64 64\nf16 TN 64 64 64\n";
  ASSERT_EQ(
      OnCache("compile", absl::StrCat(kFakeNvrtc, " ", Path("problems"))).code,
      0);
  ASSERT_EQ(OnCache("verify", kFakeNvrtc).code, 0);
  const fs::path entry = *fs::directory_iterator(Path("cache/entries"));
  fs::resize_file(entry, fs::file_size(entry) - 1);
  const Outcome outcome = OnCache("verify", kFakeNvrtc);
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output, "1 damaged")) << outcome.output;
  // Each is named once, whether or not its summary can be read, though what is
  // missing is looked for too.
  const fs::path other = *++fs::directory_iterator(Path("cache/entries"));
  fs::resize_file(other, 10);
  const Outcome both =
      OnCache("verify", absl::StrCat(kFakeNvrtc, " ", Path("problems")));
  EXPECT_TRUE(absl::StrContains(both.output, "2 damaged")) << both.output;
  EXPECT_TRUE(absl::StrContains(both.output, "2 missing")) << both.output;
  for (const fs::path& damaged : {entry, other}) {
    const std::vector<std::string> parts =
        absl::StrSplit(both.output, damaged.filename().string());
    EXPECT_EQ(parts.size(), 2u) << both.output;
  }
}

TEST_F(HostileTest, WhoReadsAWholeEntryNamesTheDamagedOne) {
  const jit::CompiledKernel kernel = jit::FakeKernel("source");
  ASSERT_TRUE(jit::DiskStore({.directory = Path("cache")}).Store(kernel).ok());
  fs::copy(Path("cache"), Path("copy"), fs::copy_options::recursive);
  std::ofstream(Path("problems")) << "bf16 TN 64 64 64\n";
  // Behind its summary, which lists read.
  const std::string entry = Path("cache/entries/") + kernel.key;
  fs::resize_file(entry, fs::file_size(entry) - 1);
  const std::string cache = " --cache-dir " + Path("cache") + " ";
  for (const std::string& arguments :
       {absl::StrCat("diff ", Path("cache"), " ", Path("copy")),
        absl::StrCat("show", cache, kernel.key),
        absl::StrCat("export", cache, Path("bundle")),
        absl::StrCat("check", cache, Path("problems"))}) {
    const Outcome outcome = Warmup(arguments);
    EXPECT_EQ(outcome.code, 1) << arguments << ": " << outcome.output;
    EXPECT_TRUE(absl::StrContains(outcome.output, kernel.key + ": "))
        << arguments << ": " << outcome.output;
  }
}

// Each finds that the others were quicker, all the time.
TEST_F(HostileTest, CollectionsAtOneTimeAreNoFailure) {
  jit::DiskStore store({.directory = Path("cache")});
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(store.Store(jit::FakeKernel(absl::StrCat(i))).ok());
  }
  const std::string collect =
      absl::StrCat(GEMMD_TEST_WARMUP " gc --other_compilers ", kFakeNvrtc,
                   " --cache_dir ", Path("cache"));
  const Outcome outcome =
      WarmupShell(absl::StrCat(collect, " & one=$!\n", collect, " & two=$!\n",
                               collect, " && wait $one && wait $two"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_TRUE(store.Keys().empty());
}

// Zero kernels would be a lie.
TEST_F(HostileTest, ACacheThatCannotBeTrustedIsAnError) {
  ASSERT_TRUE(jit::DiskStore({.directory = Path("cache")})
                  .Store(jit::FakeKernel("source"))
                  .ok());
  fs::permissions(Path("cache/entries"), fs::perms::all);
  std::ofstream(Path("problems")) << "bf16 TN 64 64 64\n";
  for (const std::string command :
       {"list", "stats", "verify", "export", "show", "gc", "check"}) {
    const Outcome outcome = OnCache(
        command, command == "export" || command == "show" ? Path("bundle")
                 : command == "verify"                    ? kFakeNvrtc
                 : command == "check"                     ? Path("problems")
                                                          : "");
    EXPECT_EQ(outcome.code, 1) << command << ": " << outcome.output;
    EXPECT_TRUE(absl::StrContains(outcome.output, "written by others"))
        << command << ": " << outcome.output;
  }
  EXPECT_FALSE(fs::exists(Path("bundle")));
}

}  // namespace
}  // namespace gemmd::warmup
