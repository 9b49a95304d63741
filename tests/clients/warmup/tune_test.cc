// gemm-warmup tune and a server whose devices take the time that the test says.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/clients/warmup/run_warmup.h"
#include "tests/integration/test_server.h"

namespace gemmd::warmup {
namespace {

using testing::TestServer;

TestServer::Options Timed() {
  return {.limits = {.admin_calls = true}, .time = [](const jit::Plan& plan) {
            return plan.config.consumers == 1 ? 2.0 : 3.0;
          }};
}

class TuneTest : public ::testing::Test {
 protected:
  TuneTest() : file_(::testing::TempDir() + "gemmd_tune_problems") {
    std::ofstream(file_) << "bf16 TN 256 1024 512\n"
                            "bf16 TN 64 64 64 alpha=0 beta=1\n"
                            "bf16 TN 512 1024 512 d=f32\n";
  }
  ~TuneTest() override { std::remove(file_.c_str()); }

  std::string Command(const TestServer& server) const {
    return absl::StrCat("tune --candidates 40 --server ", server.address(), " ",
                        file_);
  }

  const std::string file_;
};

TEST_F(TuneTest, SaysWhatItBrought) {
  TestServer server(Timed());
  const Outcome first = Warmup(Command(server));
  EXPECT_EQ(first.code, 0) << first.output;
  // What multiplies nothing is left out.
  EXPECT_TRUE(absl::StrContains(first.output, "2 problems: 2 tuned"))
      << first.output;
  EXPECT_TRUE(absl::StrContains(first.output, "0 failed")) << first.output;
  const Outcome second = Warmup(Command(server));
  EXPECT_EQ(second.code, 0) << second.output;
  EXPECT_TRUE(absl::StrContains(second.output, "2.00 us stay"))
      << second.output;
  EXPECT_TRUE(absl::StrContains(second.output, "0 of them faster; 1.000 times"))
      << second.output;
}

TEST_F(TuneTest, LeavesGroupsOutAndSaysSo) {
  std::ofstream(file_, std::ios::app) << "bf16 TN 1 64 64 ; 1+2\n";
  TestServer server(Timed());
  const Outcome outcome = Warmup(Command(server));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output, "1 groups left out: "))
      << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output, "2 problems: 2 tuned"))
      << outcome.output;
}

TEST_F(TuneTest, PrintsJsonAndNothingElse) {
  TestServer server(Timed());
  const Outcome outcome = WarmupShell(
      absl::StrCat(GEMMD_TEST_WARMUP, " ", Command(server), " --json ",
                   "--jobs 1 2>/dev/null | python3 -c 'import json, sys\n",
                   "for line in sys.stdin:\n", "  r = json.loads(line)\n",
                   "  print(r[\"line\"], r[\"us\"], r[\"problem\"])'"));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(outcome.output,
            "bf16 TN 256 1024 512 2 0\nbf16 TN 512 1024 512 d=f32 2 0\n");
}

TEST_F(TuneTest, OneFailureDoesNotHideTheOthers) {
  TestServer::Options options = Timed();
  options.time = [](const jit::Plan& plan) -> absl::StatusOr<double> {
    if (plan.rows == 256 || plan.columns == 256) {
      return absl::ResourceExhaustedError("it is too much");
    }
    return 2;
  };
  TestServer server(options);
  const Outcome outcome = Warmup(Command(server));
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output,
                                "failed: bf16 TN 256 1024 512: it is too much"))
      << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output, "1 tuned")) << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output, "1 failed")) << outcome.output;
}

TEST_F(TuneTest, NoUseInAskingOnIsSaidOnce) {
  TestServer server;
  const Outcome outcome = Warmup(Command(server));
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_TRUE(absl::StrContains(outcome.output, "--admin-calls"))
      << outcome.output;
}

TEST_F(TuneTest, KeepsThePartsOfKUnlessToldOtherwise) {
  TestServer::Options options = Timed();
  options.time = [](const jit::Plan& plan) {
    return plan.splits == 4 ? 10.0 : 1.0;
  };
  std::ofstream(file_) << "bf16 TN 512 512 8192\n";
  TestServer server(options);
  EXPECT_TRUE(absl::StrContains(Warmup(Command(server)).output, "0 of them"));
  const Outcome outcome =
      Warmup(absl::StrCat(Command(server), " --new-generation"));
  EXPECT_TRUE(absl::StrContains(outcome.output, "parts of k instead of 4"))
      << outcome.output;
}

}  // namespace
}  // namespace gemmd::warmup
