// gemm-warmup as an operator uses it: the program itself, with real NVRTC.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "jit/cache/disk_store.h"
#include "jit/cache/quota.h"
#include "jit/plan/planner.h"
#include "jit/problem/problem_line.h"
#include "tests/clients/warmup/run_warmup.h"
#include "tests/clients/warmup/warmup_case.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::warmup {
namespace {

namespace fs = std::filesystem;

constexpr char kProblems[] =
    "# three kernels\nbf16 TN 64 64 64\nf16 NN 64 64 64 d=f32 beta=1\n"
    "bf16 TN 300 300 64 d=f32\n";

// Of the first of them.
std::string SomeKernel() {
  const jit::Plan plan =
      jit::ChoosePlan(*jit::ParseProblemLine("bf16 TN 64 64 64"), {});
  return jit::KernelName(plan.family, plan.config);
}

TEST_F(WarmupTest, CompilesAListOnce) {
  const Outcome first = Compile(kProblems);
  EXPECT_EQ(first.code, 0) << first.output;
  EXPECT_TRUE(absl::StrContains(first.output,
                                "3 compiled, 0 there already, 0 "
                                "failed, 0 not written"))
      << first.output;
  const Outcome second = Compile(kProblems);
  EXPECT_EQ(second.code, 0) << second.output;
  EXPECT_TRUE(absl::StrContains(second.output, "0 compiled, 3 there already"))
      << second.output;
}

// 8-bit operands that are mn-major are transposed, f32 ones split, by kernels
// of their own, which a daemon that may not compile needs as well.
TEST_F(WarmupTest, CompilesTheKernelsThatDeriveForms) {
  const Outcome compiled = Compile("e4m3 NT 64 64 64\nf32 NN 64 64 64\n");
  EXPECT_EQ(compiled.code, 0) << compiled.output;
  const Outcome list = OnCache("list");
  EXPECT_TRUE(absl::StrContains(list.output, " transpose_8")) << list.output;
  EXPECT_TRUE(absl::StrContains(list.output, " split")) << list.output;
  EXPECT_TRUE(absl::StrContains(OnCache("check", Path("problems")).output,
                                "4 kernels wanted, 0 missing"));
}

TEST_F(WarmupTest, SaysWhenItIsIncomplete) {
  std::ofstream(Path("cache")) << "a file in the way";
  const Outcome outcome = Compile(kProblems);
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output, "3 not written"))
      << outcome.output;
}

TEST_F(WarmupTest, RefusesWrongUsage) {
  EXPECT_EQ(Compile("bf16 TN 1 2\n").code, 2);
  EXPECT_EQ(Warmup("").code, 2);
  EXPECT_EQ(Warmup("brew").code, 2);
  EXPECT_EQ(Warmup("compile --cache-dir x --speed 9 y").code, 2);
  EXPECT_EQ(Warmup("compile y").code, 2);
  EXPECT_EQ(Warmup("compile --help").code, 0);
  EXPECT_EQ(Warmup("--help").code, 0);
  EXPECT_EQ(Warmup("-h").code, 0);
  EXPECT_TRUE(absl::StartsWith(Warmup("--version").output, "gemm-warmup 0."));
  const Outcome jobs = Compile(kProblems, "--jobs none");
  EXPECT_EQ(jobs.code, 2);
  EXPECT_TRUE(absl::StrContains(jobs.output, "--jobs is none; allowed: from 1"))
      << jobs.output;
  EXPECT_EQ(Warmup("load --server localhost y").code, 2);
  EXPECT_EQ(Warmup("load").code, 2);
  const Outcome device = Compile(kProblems, "--device a100");
  EXPECT_EQ(device.code, 2);
  EXPECT_TRUE(absl::StrContains(device.output, "h100, ")) << device.output;
}

// As from an unset variable of a script: it would take away what was to be
// checked.
TEST_F(WarmupTest, AFileHasAName) {
  for (const std::string words :
       {"import --cache-dir x --signing-key-file= y",
        "export --cache-dir x --signing-key-file '' y",
        "load --server localhost:1 --ca-file= y",
        "list --cache-dir=", "verify --cache-dir x --nvrtc="}) {
    const Outcome outcome = Warmup(words);
    EXPECT_EQ(outcome.code, 2) << words;
    EXPECT_TRUE(absl::StrContains(outcome.output, " is ''; allowed: a name"))
        << words << outcome.output;
  }
}

TEST_F(WarmupTest, HelpSaysHowWeightsAreQuantized) {
  const std::string help = Warmup("compile --help").output;
  for (const char* const option : {"group=32|64|128|k", "zero_points"}) {
    EXPECT_TRUE(absl::StrContains(help, option)) << help;
  }
}

TEST_F(WarmupTest, HelpSaysWhichCommandsMakeACache) {
  for (const std::string command : {"compile", "import"}) {
    EXPECT_TRUE(absl::StrContains(Warmup(command + " --help").output,
                                  "the cache; made when it is not there"))
        << command;
  }
  for (const std::string command :
       {"check", "list", "show", "stats", "verify", "export", "gc"}) {
    const std::string help = Warmup(command + " --help").output;
    EXPECT_TRUE(absl::StrContains(help, "the cache")) << help;
    EXPECT_FALSE(absl::StrContains(help, "made when")) << help;
  }
}

TEST_F(WarmupTest, ATornLastLineCostsThatLine) {
  const Outcome outcome = Compile("bf16 TN 64 64 64\nbf16 TN 6");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output, "left out, because its end"))
      << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output, "1 problems, 1 kernels"))
      << outcome.output;
  EXPECT_EQ(Compile("bf16 TN 6\nbf16 TN 64 64 64\n").code, 2);
}

TEST_F(WarmupTest, ZerosThatAPowerCutLeftAreNoLine) {
  const std::string zeros(4096, '\0');
  for (const std::string& list :
       {"bf16 TN 64 64 64\n" + zeros, "bf16 TN 64 64 64" + zeros}) {
    const Outcome outcome = Compile(list);
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_TRUE(absl::StrContains(outcome.output, "1 problems, 1 kernels"));
    EXPECT_FALSE(absl::StrContains(outcome.output, "left out"))
        << outcome.output;
  }
  const Outcome torn = Compile("bf16 TN 64 64 64\nbf16 TN 6" + zeros);
  EXPECT_EQ(torn.code, 0) << torn.output;
  EXPECT_TRUE(absl::StrContains(torn.output, "left out, because its end"))
      << torn.output;
  EXPECT_FALSE(absl::StrContains(torn.output, zeros.substr(0, 1)));
}

TEST_F(WarmupTest, ChecksWhatACacheLacks) {
  const Outcome before = OnCache("check", Path("problems"));
  EXPECT_EQ(before.code, 1) << before.output;  // No such file yet.
  std::ofstream(Path("problems")) << kProblems;
  const Outcome none = OnCache("check", Path("problems"));
  EXPECT_EQ(none.code, 1);
  EXPECT_TRUE(absl::StrContains(none.output, "is not a cache directory"))
      << none.output;
  EXPECT_FALSE(absl::StrContains(none.output, "missing")) << none.output;
  ASSERT_EQ(Compile(kProblems).code, 0);
  const Outcome complete = OnCache("check", Path("problems"));
  EXPECT_EQ(complete.code, 0) << complete.output;
  EXPECT_TRUE(absl::StrContains(complete.output, " 0 missing"));
  const Outcome preset =
      OnCache("check", "--preset llama-3-8b --preset-tokens 64 --device h20");
  EXPECT_EQ(preset.code, 1);
  EXPECT_TRUE(absl::StrContains(preset.output, "missing: gemm_bf16"))
      << preset.output;
}

// With a parser that is not ours.
std::string Python(const std::string& expression, const std::string& json) {
  const std::string file = testing::TempDir() + "/gemm_warmup.json";
  std::ofstream(file, std::ios::trunc) << json;
  const Outcome outcome =
      WarmupShell(absl::StrCat("python3 -c 'import json; x = json.load(open(\"",
                               file, "\")); print(", expression, ")'"));
  return outcome.output;
}

TEST_F(WarmupTest, PrintsJsonForScripts) {
  ASSERT_EQ(Compile(kProblems).code, 0);
  EXPECT_EQ(Python("len(x[\"kernels\"]), x[\"damaged\"], "
                   "min(k[\"cubin_bytes\"] for k in x[\"kernels\"]) > 1000, "
                   "{len(k[\"key\"]) for k in x[\"kernels\"]}",
                   OnCache("list", "--json").output),
            "3 0 True {64}\n");
  EXPECT_EQ(Python("x[\"kernels\"], [c[\"kernels\"] for c in x[\"compilers\"]]",
                   OnCache("stats", "--json").output),
            "3 [3]\n");
  std::ofstream(Path("problems"), std::ios::app) << "f16 TN 64 64 64\n";
  const Outcome check = OnCache("check", "--json " + Path("problems"));
  EXPECT_EQ(check.code, 1);
  EXPECT_EQ(Python("x[\"wanted\"], len(x[\"missing\"])", check.output),
            "4 1\n");
}

TEST_F(WarmupTest, AVerificationSaysWhatIsMissing) {
  ASSERT_EQ(Compile(kProblems).code, 0);
  const std::string nvrtc = "--nvrtc " GEMMD_TEST_NVRTC " ";
  const Outcome complete = OnCache("verify", nvrtc + Path("problems"));
  EXPECT_EQ(complete.code, 0) << complete.output;
  EXPECT_TRUE(absl::StrContains(complete.output, "3 identical, 0 not"));
  EXPECT_TRUE(absl::StrContains(complete.output, "3 kernels wanted, 0 missing"))
      << complete.output;
  const Outcome preset =
      OnCache("verify", nvrtc + "--preset llama-3-8b --preset-tokens 64");
  EXPECT_EQ(preset.code, 1) << preset.output;
  EXPECT_TRUE(absl::StrContains(preset.output, "missing: gemm_bf16"))
      << preset.output;
  EXPECT_EQ(OnCache("verify", nvrtc + "--preset nobody").code, 2);
}

TEST_F(WarmupTest, ReadsPresetsAndProtobufText) {
  EXPECT_EQ(Warmup("compile --cache-dir x --preset nobody").code, 2);
  const Outcome tokens =
      Warmup("compile --cache-dir x --preset llama-3-8b --preset-tokens 65537");
  EXPECT_EQ(tokens.code, 2);
  EXPECT_TRUE(absl::StrContains(tokens.output, "allowed: 1 to 65536"))
      << tokens.output;
  const std::string file = Path("spec.textproto");
  const auto compile = [&](const std::string& spec) {
    std::ofstream(file, std::ios::trunc) << spec;
    return OnCache("compile", "--nvrtc " GEMMD_TEST_NVRTC " " + file);
  };
  const Outcome good = compile(
      "problems { m: 64 n: 64 k: 64 a_type: DATA_TYPE_BF16\n"
      "           b_type: DATA_TYPE_BF16 }\n");
  EXPECT_EQ(good.code, 0) << good.output;
  EXPECT_TRUE(absl::StrContains(good.output, "1 problems, 1 kernels"));
  const Outcome unserved = compile(
      "problems { m: 64 n: 64 k: 64 a_type: DATA_TYPE_BF16\n"
      "           b_type: DATA_TYPE_F16 }\n");
  EXPECT_EQ(unserved.code, 2);
  EXPECT_TRUE(absl::StrContains(unserved.output, "problem.b_type"))
      << unserved.output;
  const Outcome bad = compile("problems {\n  m: many\n}\n");
  EXPECT_EQ(bad.code, 2);
  EXPECT_TRUE(absl::StrContains(bad.output, "line 2")) << bad.output;
  const Outcome wrong = compile("problems { m: 1 a_type: DATA_TYPE_BF16 }\n");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_TRUE(absl::StrContains(wrong.output, "problems[0]")) << wrong.output;
}

TEST_F(WarmupTest, SaysHowToGetNvrtc) {
  const Outcome outcome = Compile(kProblems, "--nvrtc /nonexistent");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(absl::StrContains(outcome.output, "nvidia-cuda-nvrtc"));
}

TEST_F(WarmupTest, ListsShowsAndCounts) {
  ASSERT_EQ(Compile(kProblems).code, 0);
  const Outcome list = OnCache("list");
  EXPECT_EQ(list.code, 0);
  EXPECT_TRUE(absl::StrContains(list.output, SomeKernel())) << list.output;
  const Outcome show = OnCache("show", SomeKernel());
  EXPECT_EQ(show.code, 0);
  EXPECT_TRUE(absl::StrContains(show.output, "NVRTC 13.0 sha256:"));
  EXPECT_TRUE(absl::StrContains(show.output, "0 bytes spill stores"));
  EXPECT_TRUE(absl::StrContains(
      OnCache("show", absl::StrCat(SomeKernel(), " --source")).output,
      "gemmd_kernel("));
  EXPECT_EQ(OnCache("show", "nothing").code, 1);
  const Outcome stats = OnCache("stats");
  EXPECT_TRUE(absl::StrContains(stats.output, "kernels        3\n"))
      << stats.output;
  EXPECT_EQ(Warmup("list --cache-dir /nonexistent").code, 1);
}

TEST_F(WarmupTest, VerifiesByCompilingAgain) {
  ASSERT_EQ(Compile(kProblems).code, 0);
  const Outcome good = OnCache("verify", "--nvrtc " GEMMD_TEST_NVRTC);
  EXPECT_EQ(good.code, 0) << good.output;
  EXPECT_TRUE(absl::StrContains(good.output, "3 identical, 0 not"));

  // A cubin that somebody changed and wrapped up properly.
  jit::DiskStore store({.directory = Path("cache")});
  jit::CompiledKernel kernel = *store.Load(store.Keys()[0]);
  kernel.cubin.back() = static_cast<char>(kernel.cubin.back() ^ 1);
  ASSERT_TRUE(store.Store(kernel).ok());
  const Outcome bad = OnCache("verify", "--nvrtc " GEMMD_TEST_NVRTC);
  EXPECT_EQ(bad.code, 1);
  EXPECT_TRUE(absl::StrContains(bad.output, kernel.key)) << bad.output;
}

TEST_F(WarmupTest, CarriesACacheToAnotherPlace) {
  ASSERT_EQ(Compile(kProblems).code, 0);
  EXPECT_EQ(OnCache("export", Path("bundle")).code, 0);
  EXPECT_EQ(OnCache("export", Path("bundle2")).code, 0);
  const std::string other = Path("other");
  const auto import = [&](const std::string& bundle) {
    return Warmup(absl::StrCat("import --cache-dir ", other, " ", bundle));
  };
  // Damaged: nothing of it arrives.
  fs::copy(Path("bundle"), Path("damaged"));
  fs::resize_file(Path("damaged"), fs::file_size(Path("damaged")) - 600);
  EXPECT_EQ(import(Path("damaged")).code, 1);
  EXPECT_FALSE(fs::exists(other));

  // Nothing waits for its end.
  const Outcome endless = import("/dev/zero");
  EXPECT_EQ(endless.code, 2);
  EXPECT_TRUE(absl::StrContains(endless.output, "it is a device"));

  const Outcome first = import(Path("bundle"));
  EXPECT_EQ(first.code, 0) << first.output;
  EXPECT_TRUE(absl::StrContains(first.output, "3 imported"));
  EXPECT_TRUE(absl::StrContains(import(Path("bundle2")).output,
                                "0 imported, 3 there already"));
  EXPECT_EQ(Warmup(absl::StrCat("diff ", Path("cache"), " ", other)).code, 0);
}

// Which a daemon told it. What had to go is missing.
TEST_F(WarmupTest, KeepsToTheLimitOfTheDirectory) {
  ASSERT_EQ(Compile(kProblems).code, 0);
  ASSERT_EQ(OnCache("export", Path("bundle")).code, 0);
  const int64_t limit =
      jit::DiskStore({.directory = Path("cache")}).BytesUsed() / 2;
  for (const std::string& command :
       {absl::StrCat("compile --nvrtc " GEMMD_TEST_NVRTC " ", Path("problems")),
        "import " + Path("bundle")}) {
    fs::remove_all(Path("cache"));
    jit::DiskStore store({.directory = Path("cache"), .limit_bytes = limit});
    ASSERT_TRUE(store.Store(jit::FakeKernel("somebody's")).ok());
    const Outcome outcome = OnCache(command);
    EXPECT_EQ(outcome.code, 1) << outcome.output;
    EXPECT_LE(store.BytesUsed(), limit) << outcome.output;
    const size_t kept = store.Keys().size();
    EXPECT_GT(kept, 0u);
    EXPECT_TRUE(absl::StrContains(
        outcome.output,
        absl::StrCat("gemm-warmup: ", 3 - kept, " of 3 kernels are not in ",
                     Path("cache"), " any more: its limit is ")))
        << outcome.output;
    EXPECT_TRUE(absl::StrContains(outcome.output, " would have to be "));
  }
}

// A daemon that was told a higher limit may start only when they are through.
TEST_F(WarmupTest, RaisesTheLimitOfTheDirectory) {
  ASSERT_EQ(Compile(kProblems).code, 0);
  ASSERT_EQ(OnCache("export", Path("bundle")).code, 0);
  const int64_t bytes =
      jit::DiskStore({.directory = Path("cache")}).BytesUsed();
  for (const std::string& command :
       {absl::StrCat("compile --nvrtc " GEMMD_TEST_NVRTC " ", Path("problems")),
        "import " + Path("bundle")}) {
    fs::remove_all(Path("cache"));
    jit::DiskStore store(
        {.directory = Path("cache"), .limit_bytes = bytes / 2});
    ASSERT_TRUE(store.Store(jit::FakeKernel("somebody's")).ok());
    const Outcome outcome = OnCache(command, "--limit-bytes 1GiB");
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(store.Keys().size(), 4u);
    // The others' limit too, until a daemon has another.
    EXPECT_EQ(*jit::LimitBytes({.directory = Path("cache")}), 1 << 30);
  }
  EXPECT_EQ(OnCache("import", "--limit-bytes much " + Path("bundle")).code, 2);
}

// A plan depends on the number of multiprocessors: of an H20, 78.
TEST_F(WarmupTest, PreparesForTheGpuThatIsNamed) {
  const Outcome compiled = Compile("bf16 TN 1024 1024 1024\n",
                                   "--device h20 --nvrtc " GEMMD_TEST_NVRTC);
  EXPECT_TRUE(absl::StrContains(compiled.output, "of 78 multiprocessors"))
      << compiled.output;
  for (const auto& [flags, says] :
       {std::pair{"--device H20 ", " 0 missing, for a GPU of 78 "},
        {"--multiprocessors 78 ", " 0 missing, for a GPU of 78 "},
        {"--device h200 ", " 1 missing, for a GPU of 132 "},
        {"", " 1 missing, for a GPU of 132 "}}) {
    const Outcome outcome = OnCache("check", flags + Path("problems"));
    EXPECT_TRUE(absl::StrContains(outcome.output, says))
        << flags << outcome.output;
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kTellsMemory = false;  // Shadows and quarantines count.
#else
constexpr bool kTellsMemory = true;
#endif

// The most memory that gemm-warmup had, in bytes; it has to succeed.
int64_t PeakBytes(const std::string& arguments) {
  const std::string command =
      absl::StrCat("exec ", GEMMD_TEST_WARMUP, " ", arguments, " > /dev/null");
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  int status = -1;
  rusage usage = {};
  EXPECT_EQ(wait4(child, &status, 0, &usage), child);
  EXPECT_EQ(status, 0) << arguments;
  return int64_t{usage.ru_maxrss} << 10;
}

TEST_F(WarmupTest, ALargeCacheIsListedAndCarriedInLittleMemory) {
  if (!kTellsMemory)
    GTEST_SKIP() << "a sanitizer's own memory counts as the program's";
  constexpr int64_t kEntryBytes = 4 << 20;
  constexpr int kEntries = 24;
  std::mt19937_64 random(1);
  for (int i = 0; i < kEntries; ++i) {
    jit::CompiledKernel kernel = jit::FakeKernel(absl::StrCat("source ", i));
    while (kernel.cubin.size() < kEntryBytes) {
      const uint64_t bits = random();
      kernel.cubin.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
    }
    ASSERT_TRUE(
        jit::DiskStore({.directory = Path("cache")}).Store(kernel).ok());
  }
  const std::string cache = "--cache-dir " + Path("cache");
  const int64_t least = PeakBytes("--version");
  for (const std::string& arguments :
       {"list " + cache, absl::StrCat("export ", cache, " ", Path("bundle")),
        absl::StrCat("import --cache-dir ", Path("other"), " ",
                     Path("bundle"))}) {
    EXPECT_LT(PeakBytes(arguments) - least, kEntries * kEntryBytes / 2)
        << arguments;
  }
  EXPECT_GT(fs::file_size(Path("bundle")), kEntries * kEntryBytes);
}

TEST_F(WarmupTest, CollectsAndTellsTheDifference) {
  ASSERT_EQ(Compile(kProblems).code, 0);
  fs::copy(Path("cache"), Path("copy"), fs::copy_options::recursive);
  std::ofstream(Path("cache/temporary/left")) << "by a crash";
  const Outcome gc = OnCache("gc", "--limit-bytes 100kB");
  EXPECT_EQ(gc.code, 0) << gc.output;
  EXPECT_FALSE(fs::exists(Path("cache/temporary/left")));
  const Outcome diff =
      Warmup(absl::StrCat("diff ", Path("cache"), " ", Path("copy")));
  EXPECT_EQ(diff.code, 1);
  EXPECT_TRUE(absl::StartsWith(diff.output, "+ ")) << diff.output;
}

}  // namespace
}  // namespace gemmd::warmup
