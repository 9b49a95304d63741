// One dialect: what every program of ours understands, and how it refuses.
#include "clients/cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace gemmd::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

// A program with one option of each kind and two subcommands.
struct Sample {
  Sample() : program("sample", "shows what there is") {
    program.ConfigFile();
    program.Alias("old-grace-ms", "grace");
    program.Int("--lanes N", lanes, {1, 16}, "Requests at a time.");
    program.Bytes("--limit BYTES", limit, {65536, int64_t{1} << 31}, "Most.");
    program.Duration("--grace TIME", grace, absl::Milliseconds(1),
                     {absl::ZeroDuration(), absl::Hours(1)}, "Wait so long.");
    program.Duration("--age TIME", age, absl::Seconds(1),
                     {absl::Seconds(1), absl::InfiniteDuration()}, "At most.");
    program.Number("--alpha X", alpha, "A factor.");
    program.Number("--rate X", rate, {0, 1e6}, "So often.");
    program.Text("--cache-dir DIR", directory, "Where kernels are.");
    program.File("--policy-file FILE", policy, "Who may.");
    program.List("--listen ADDRESSES", listen, "Where to listen.");
    program.Choice("--device KIND", device, {"auto", "host"}, "Which.");
    program.Switch("--quiet", quiet, "Say less.");
    program.Run([this] {
      ++runs;
      return absl::StatusOr<int>(kExitOk);
    });
  }

  Outcome operator()(std::vector<const char*> words) {
    words.insert(words.begin(), "sample");
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = program.Main(static_cast<int>(words.size()), words.data());
    return {code, testing::internal::GetCapturedStdout(),
            testing::internal::GetCapturedStderr()};
  }

  Program program;
  int lanes = 2;
  int64_t limit = int64_t{1} << 30;
  absl::Duration grace = absl::Seconds(30);
  absl::Duration age = absl::InfiniteDuration();
  double alpha = 1;
  double rate = 0;
  std::string directory;
  std::string policy;
  std::vector<std::string> listen = {"127.0.0.1:50051"};
  std::string device = "auto";
  bool quiet = false;
  int runs = 0;
};

TEST(CommandLineTest, ValuesFollowEqualsSignsAndBlanks) {
  Sample sample;
  const Outcome outcome =
      sample({"--lanes=3", "--limit", "1MiB", "--grace=2s", "--alpha", "-0.5",
              "--listen=a:1,b:2", "--quiet", "--device=host"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_EQ(sample.runs, 1);
  EXPECT_EQ(sample.lanes, 3);
  EXPECT_EQ(sample.limit, 1 << 20);
  EXPECT_EQ(sample.grace, absl::Seconds(2));
  EXPECT_EQ(sample.alpha, -0.5);
  EXPECT_THAT(sample.listen, ElementsAre("a:1", "b:2"));
  EXPECT_TRUE(sample.quiet);
  EXPECT_EQ(sample.device, "host");
}

TEST(CommandLineTest, DefaultsStay) {
  Sample sample;
  EXPECT_EQ(sample({}).code, kExitOk);
  EXPECT_EQ(sample.lanes, 2);
  EXPECT_THAT(sample.listen, ElementsAre("127.0.0.1:50051"));
}

TEST(CommandLineTest, TheLastOfTwoEqualOptionsCounts) {
  Sample sample;
  EXPECT_EQ(
      sample({"--lanes=3", "--listen=a:1", "--listen=b:2", "--lanes=4"}).code,
      kExitOk);
  EXPECT_EQ(sample.lanes, 4);
  EXPECT_THAT(sample.listen, ElementsAre("b:2"));
}

TEST(CommandLineTest, AnEmptyValueIsNotTheNextWord) {
  Sample sample;
  sample.directory = "/somewhere";
  EXPECT_EQ(sample({"--cache-dir=", "--lanes=3"}).code, kExitOk);
  EXPECT_EQ(sample.directory, "");
  EXPECT_EQ(sample.lanes, 3);
  EXPECT_EQ(sample({"--listen="}).code, kExitOk);
  EXPECT_THAT(sample.listen, IsEmpty());
}

TEST(CommandLineTest, FormerSpellingsAreUnderstoodAndNotShown) {
  Sample sample;
  EXPECT_EQ(sample({"--cache_dir=/a_b", "--old_grace_ms", "250"}).code,
            kExitOk);
  EXPECT_EQ(sample.directory, "/a_b");
  EXPECT_EQ(sample.grace, absl::Milliseconds(250));
  EXPECT_THAT(sample({"--help"}).out,
              AllOf(Not(HasSubstr("old")), Not(HasSubstr("cache_dir"))));
}

TEST(CommandLineTest, WrongValuesSayWhatIsAllowed) {
  Sample sample;
  for (const auto& [word, says] : {
           std::pair{"--lanes=0", "--lanes is 0; allowed: 1 to 16"},
           {"--lanes=x", "--lanes is x; allowed: 1 to 16"},
           {"--lanes=4294967297", "--lanes is 4294967297; allowed: 1 to 16"},
           {"--lanes=", "--lanes is ''; allowed: 1 to 16"},
           {"--limit=1", "--limit is 1; allowed: 64KiB to 2GiB"},
           {"--limit=1apple", "--limit is 1apple; allowed: a number of bytes"},
           {"--grace=2h", "--grace is 2h; allowed: 0 to 1h"},
           {"--grace=x", "--grace is x; allowed: a time such as"},
           {"--alpha=two", "--alpha is two; allowed: a number"},
           {"--alpha=1e39", "--alpha is 1e39; allowed: a number that f32"},
           {"--alpha=1e400", "--alpha is 1e400; allowed: a number that f32"},
           {"--policy-file=", "--policy-file is ''; allowed: a name"},
           {"--device=tpu", "--device is tpu; allowed: auto, host"},
           {"--speed=9", "--speed=9"},
           {"stray", "stray"},
           {"--lanes", "--lanes"},
       }) {
    const Outcome outcome = sample({word});
    EXPECT_EQ(outcome.code, kExitUsage) << word;
    EXPECT_THAT(outcome.err, HasSubstr(says)) << word;
    EXPECT_THAT(outcome.err, HasSubstr("See sample --help.")) << word;
    EXPECT_EQ(outcome.out, "") << word;
  }
  EXPECT_EQ(sample.runs, 0);
}

TEST(CommandLineTest, AMistypedWordIsNamedWithWhatMayBeMeant) {
  Sample sample;
  EXPECT_EQ(sample({"--lanse", "3"}).err,
            "sample: --lanse is no option; did you mean --lanes?\n"
            "See sample --help.\n");
  EXPECT_THAT(sample({"--lmit=1MiB"}).err, HasSubstr("--limit?"));
  EXPECT_THAT(sample({"--entirely-else=1"}).err,
              AllOf(HasSubstr("--entirely-else=1 is no option\n"),
                    Not(HasSubstr("did you mean"))));
  EXPECT_THAT(sample({"\033[31mred"}).err, Not(HasSubstr("\033")));
}

TEST(CommandLineTest, WhatIsWrongIsShortHoweverLongTheWord) {
  Sample sample;
  const std::string word = "--" + std::string(1 << 20, 'x');
  const std::string said = sample({word.c_str()}).err;
  EXPECT_LT(said.size(), 10000);
  EXPECT_THAT(said, HasSubstr("x ... x"));
  EXPECT_THAT(said, HasSubstr("x is no option\n"));
}

// A script would go on with half of what it asked for, or nothing.
TEST(CommandLineTest, WhatCannotBePrintedIsAFailure) {
  for (const char* word : {"--quiet", "--help", "--version"}) {
    Sample sample;
    sample.program.Run([] {
      std::printf("a result\n");
      return absl::StatusOr<int>(kExitOk);
    });
    const int pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      if (std::freopen("/dev/full", "w", stdout) == nullptr) _exit(99);
      const char* const words[] = {"sample", word};
      _exit(sample.program.Main(2, words));
    }
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(WEXITSTATUS(status), kExitFailed) << word;
  }
}

TEST(CommandLineTest, WhatCannotBePrintedSaysWhy) {
  for (const size_t bytes : {10, 100'000, 3'000'000}) {
    Sample sample;
    sample.program.Run([&] {
      std::printf("%s\n", std::string(bytes, 'x').c_str());
      return absl::StatusOr<int>(kExitOk);
    });
    const auto print_in_vain = [&] {
      if (std::freopen("/dev/full", "w", stdout) == nullptr) _exit(99);
      const char* const words[] = {"sample", "--quiet"};
      _exit(sample.program.Main(2, words));
    };
    EXPECT_EXIT(print_in_vain(), testing::ExitedWithCode(kExitFailed),
                "No space left on device")
        << bytes;
  }
}

TEST(CommandLineTest, HelpAndVersionAreNoErrors) {
  Sample sample;
  for (const char* word : {"-h", "--help"}) {
    const Outcome help = sample({word});
    EXPECT_EQ(help.code, kExitOk);
    EXPECT_THAT(help.out,
                AllOf(HasSubstr("--lanes N"), HasSubstr("Default: 2"),
                      HasSubstr("1 to 16"), HasSubstr("Default: 1GiB"),
                      HasSubstr("At most. Default: none. Allowed: from 1s."),
                      HasSubstr("127.0.0.1:50051")));
    for (size_t start = 0, end; start < help.out.size(); start = end + 1) {
      end = help.out.find('\n', start);
      EXPECT_LE(end - start, 80) << help.out.substr(start, end - start);
    }
  }
  const Outcome version = sample({"--version"});
  EXPECT_EQ(version.code, kExitOk);
  EXPECT_THAT(version.out, testing::StartsWith("sample 0."));
  EXPECT_EQ(sample.runs, 0);
}

TEST(CommandLineTest, NumbersHaveARange) {
  Sample sample;
  for (const char* const wrong :
       {"--rate=nan", "--rate=inf", "--rate=-1", "--rate=1e7", "--rate=x"}) {
    const Outcome outcome = sample({wrong});
    EXPECT_EQ(outcome.code, kExitUsage) << wrong;
    EXPECT_THAT(outcome.err, HasSubstr("allowed: 0 to 1e+06")) << wrong;
  }
  EXPECT_EQ(sample({"--rate=0.5", "--alpha=inf"}).code, kExitOk);
  EXPECT_EQ(sample.rate, 0.5);
}

class ConfigTest : public testing::Test {
 protected:
  // --config with a file of this content.
  std::string Write(const std::string& content) {
    const std::string path =
        testing::TempDir() + "/" +
        testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ofstream(path) << content;
    return "--config=" + path;
  }

  Sample sample_;
};

TEST_F(ConfigTest, SetsWhatTheCommandLineDoesNot) {
  const std::string config = Write(
      "# of this machine\nlanes = 5\nlimit = \"1MiB\"  # with a unit\n"
      "cache-dir = \"/var/cache\"\nquiet = true\n"
      "listen = [\"a:1\", \"b:2\"]\ngrace = 3\n");
  const Outcome outcome = sample_({config.c_str(), "--grace=4"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_EQ(sample_.lanes, 5);
  EXPECT_EQ(sample_.limit, 1 << 20);
  EXPECT_EQ(sample_.directory, "/var/cache");
  EXPECT_TRUE(sample_.quiet);
  EXPECT_THAT(sample_.listen, ElementsAre("a:1", "b:2"));
  EXPECT_EQ(sample_.grace, absl::Milliseconds(4));
}

TEST_F(ConfigTest, MistakesAreErrors) {
  for (const auto& [content, says] : {
           std::pair{"lanse = 5\n",
                     "MistakesAreErrors: lanse is no option; did you mean "
                     "--lanes?"},
           {"entirely_else = 5\n", "Errors: entirely-else is no option\n"},
           {"lanes = 17\n", "MistakesAreErrors: lanes is 17; allowed: 1 to 16"},
           {"quiet = maybe\n",
            "MistakesAreErrors: quiet: it is maybe; allowed: true, false"},
           {"quiet = [true, false]\n",
            "MistakesAreErrors: line 1: quiet has a second value; allowed: "
            "one"},
           {"quiet = 3\n", "quiet: it is 3; allowed"},
           {"quiet = \"\"\n",
            "MistakesAreErrors: quiet is ''; allowed: true, false"},
           {"quiet = []\n", "quiet is ''; allowed: true, false"},
           {"policy-file = ''\n", "policy-file is ''; allowed: a name"},
           {"policy-file = \"/a\"\nlanes = 3\npolicy_file = \"/b\"\n",
            "line 3: policy-file has a second value; allowed: one"},
           {"policy-file = [\"/a\", \"/b\"]\n",
            "line 1: policy-file has a second value; allowed: one"},
           {"policy-file = /a b\n", "MistakesAreErrors: line 1: 'b' follows"},
           {" = 3\n", "MistakesAreErrors: line 1: no name is before ="},
           {"[cache]\nlimit = 65536\n",
            "MistakesAreErrors: line 1: [cache] is a section; allowed: \"name "
            "= value\" lines"},
           {"lanes = 5\nconfig = \"/a\"\n",
            "MistakesAreErrors: line 2: config is of the command line alone"},
           {"version = true\n", "line 1: version is of the command line"},
           {"e\x1b = 1\n", "MistakesAreErrors: e\\x1b is no option"},
       }) {
    const std::string config = Write(content);
    const Outcome outcome = sample_({config.c_str()});
    EXPECT_EQ(outcome.code, kExitUsage) << content;
    EXPECT_THAT(outcome.err, HasSubstr(says)) << content;
  }
  // Whose value it is.
  const std::string good = Write("lanes = 5\n");
  for (const auto& word : {"--lanes=17", "--quiet=maybe"}) {
    const Outcome outcome = sample_({good.c_str(), word});
    EXPECT_EQ(outcome.code, kExitUsage);
    EXPECT_THAT(
        outcome.err,
        HasSubstr(absl::StrCat(": --", absl::string_view(word).substr(2, 5))));
  }
  const Outcome missing = sample_({"--config=/nowhere/gemmd.toml"});
  EXPECT_EQ(missing.code, kExitUsage);
  EXPECT_THAT(missing.err,
              HasSubstr("--config: /nowhere/gemmd.toml: cannot read "
                        "it: No such file or directory\n"));
  const Outcome folder = sample_({"--config=/proc"});
  EXPECT_EQ(folder.code, kExitUsage);
  EXPECT_THAT(folder.err, HasSubstr("/proc: cannot read it: Is a directory\n"));
  const Outcome endless = sample_({"--config=/dev/zero"});
  EXPECT_EQ(endless.code, kExitUsage);
  EXPECT_THAT(endless.err, HasSubstr("/dev/zero: it is a device; allowed"));
  // It has nothing where a file begins.
  const Outcome unreadable = sample_({"--config=/proc/self/mem"});
  EXPECT_EQ(unreadable.code, kExitUsage);
  EXPECT_THAT(unreadable.err, HasSubstr("/proc/self/mem: it cannot be read"));
  // As from an unset variable of a script.
  const Outcome nameless = sample_({"--config="});
  EXPECT_EQ(nameless.code, kExitUsage);
  EXPECT_THAT(nameless.err, HasSubstr("--config: it is ''; allowed: a name"));
}

// Who may call stands below a list in many files.
TEST_F(ConfigTest, NoListTakesTheLinesBelowIt) {
  for (const char* const list : {
           "listen = [\"a:1\",\n          \"b:2\"]  # ours first\n",
           "listen = [\n  \"a:1\",\n  \"b:2\",\n]\n",
           "listen = [\"a:1\"]\nlisten = [\"b:2\"]\n",
       }) {
    Sample sample;
    const std::string config =
        Write(absl::StrCat(list, "policy-file = \"/policy#2\"\nlanes = 5\n"));
    const Outcome outcome = sample({config.c_str()});
    EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
    EXPECT_THAT(sample.listen, ElementsAre("a:1", "b:2"));
    EXPECT_EQ(sample.policy, "/policy#2");
    EXPECT_EQ(sample.lanes, 5);
  }
}

// A tree of commands, as gemmctl has one.
struct Tree {
  Tree() : program("tree", "has branches") {
    Command& tensor = program.Subcommand("tensor", "matrices of the daemon");
    Command& show = tensor.Subcommand("show", "one tensor");
    show.Text("HANDLE", handle, "Its name.");
    show.Server(server);
    show.Text("-o,--output FILE", output, "Where to.");
    show.Run([this]() -> absl::StatusOr<int> { return result; });
    Command& drop = program.Subcommand("drop", "forgets");
    drop.Operands("KEY", keys, 1, "Which.");
    drop.Run([]() -> absl::StatusOr<int> { throw std::bad_alloc(); });
  }
  Outcome operator()(std::vector<const char*> words) {
    words.insert(words.begin(), "tree");
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = program.Main(static_cast<int>(words.size()), words.data());
    return {code, testing::internal::GetCapturedStdout(),
            testing::internal::GetCapturedStderr()};
  }

  Program program;
  absl::StatusOr<int> result = kExitOk;
  std::string handle, server, output;
  std::vector<std::string> keys;
};

TEST(SubcommandTest, OptionsAndOperandsMix) {
  Tree tree;
  EXPECT_EQ(tree({"tensor", "show", "-o", "-", "h1", "--server=a:1"}).code,
            kExitOk);
  EXPECT_EQ(tree.handle, "h1");
  EXPECT_EQ(tree.output, "-");
  EXPECT_EQ(tree.server, "a:1");
}

TEST(SubcommandTest, TheServerComesFromTheEnvironment) {
  setenv("GEMMD_SERVER", "unix:/run/gemmd.sock", 1);
  EXPECT_EQ(Tree().server, "unix:/run/gemmd.sock");
  unsetenv("GEMMD_SERVER");
  EXPECT_EQ(Tree().server, "localhost:50051");
}

TEST(SubcommandTest, ErrorsBecomeExitCodes) {
  Tree tree;
  tree.result = absl::InvalidArgumentError("--x does not go with --y");
  EXPECT_EQ(tree({"tensor", "show", "h"}).code, kExitUsage);
  tree.result = absl::NotFoundError("no tensor h");
  const Outcome outcome = tree({"tensor", "show", "h"});
  EXPECT_EQ(outcome.code, kExitFailed);
  EXPECT_EQ(outcome.err, "tree: no tensor h\n");
  tree.result = 1;
  EXPECT_EQ(tree({"tensor", "show", "h"}).code, 1);
}

TEST(SubcommandTest, ExceptionsBecomeExitCodes) {
  const Outcome outcome = Tree()({"drop", "a", "b"});
  EXPECT_EQ(outcome.code, kExitFailed);
  EXPECT_THAT(outcome.err, HasSubstr("tree: there is not enough memory"));
}

TEST(SubcommandTest, MissingAndUnknownWordsAreUsageErrors) {
  Tree tree;
  EXPECT_EQ(tree({}).code, kExitUsage);
  EXPECT_EQ(tree({"tensor"}).code, kExitUsage);
  EXPECT_EQ(tree({"tensor", "show"}).code, kExitUsage);
  EXPECT_EQ(tree({"tensor", "show", "a", "b"}).code, kExitUsage);
  EXPECT_EQ(tree({"fly"}).code, kExitUsage);
  EXPECT_THAT(tree({"fly"}).err,
              HasSubstr("fly is no command; allowed: tensor, drop"));
  EXPECT_THAT(tree({"tensor", "shwo", "h"}).err,
              HasSubstr("shwo is no command; did you mean show?"));
  EXPECT_THAT(tree({"tensor", "show", "--ouput", "x"}).err,
              HasSubstr("--ouput is no option; did you mean --output?"));
  EXPECT_THAT(tree({"--server", "x", "tensor", "show", "h"}).err,
              HasSubstr("--server stands before show; allowed: behind it"));
  EXPECT_THAT(tree({"tensor", "show", "--"}).err,
              HasSubstr("HANDLE is required"));
  EXPECT_THAT(tree({"tensor", "show", "--", "a", "b"}).err,
              HasSubstr("b is more than was asked for"));
  EXPECT_EQ(tree({"tensor", "show", "--", "--a_name"}).code, kExitOk);
  EXPECT_EQ(tree.handle, "--a_name");
  EXPECT_THAT(tree({"--", "drop", "a"}).err,
              HasSubstr("-- stands before the command; allowed: behind it"));
  EXPECT_THAT(tree({"tensor", "--", "show", "h"}).err,
              HasSubstr("-- stands before the command; allowed: behind it"));
  EXPECT_THAT(tree({""}).err, HasSubstr("'' is no command; allowed: "));
  EXPECT_EQ(tree({"drop"}).code, kExitUsage);
  EXPECT_THAT(tree({"tensor", "show", "--help"}).out,
              AllOf(HasSubstr("HANDLE"), HasSubstr("GEMMD_SERVER")));
}

TEST(CommandLineTest, AnOptionMayNeedAnother) {
  Sample sample;
  sample.program.Require("--policy-file", "--cache-dir");
  const Outcome alone = sample({"--policy-file=p"});
  EXPECT_EQ(alone.code, kExitUsage);
  EXPECT_THAT(alone.err, HasSubstr("--policy-file requires --cache-dir"));
  EXPECT_EQ(sample({"--policy-file=p", "--cache-dir=d"}).code, kExitOk);
}

TEST(CommandLineTest, DetailsAreParagraphsAndExamplesStay) {
  Sample sample;
  const std::string word(30, 'x'), example = "  " + std::string(90, 'y');
  sample.program.Details("One\ntwo " + word + " " + word + " " + word + "\n\n" +
                         example + "\n  z\nend\n");
  EXPECT_THAT(sample({"--help"}).out,
              HasSubstr("\nOne two " + word + " " + word + "\n" + word +
                        "\n\n" + example + "\n  z\nend\n"));
}

TEST(CommandLineTest, ALineIsParsedAndNothingRuns) {
  Sample sample;
  EXPECT_TRUE(
      sample.program.ParseLine("--lanes 3 --cache_dir 'a b' --quiet --lanes=4")
          .ok());
  EXPECT_EQ(sample.lanes, 4);
  EXPECT_EQ(sample.directory, "a b");
  EXPECT_TRUE(sample.quiet);
  EXPECT_EQ(sample.runs, 0);
  const auto wrong = [](const std::string& line) {
    const absl::Status status = Sample().program.ParseLine(line);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(wrong("--lanes 17"), "--lanes is 17; allowed: 1 to 16");
  EXPECT_EQ(wrong("--lames 3"), "--lames is no option; did you mean --lanes?");
  EXPECT_THAT(wrong("--help"), HasSubstr("command line"));
}

}  // namespace
}  // namespace gemmd::cli
