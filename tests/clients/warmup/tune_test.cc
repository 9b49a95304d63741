// gemm-warmup tune and a server whose devices take the time that the test says.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gemmd/v1/kernels.grpc.pb.h"
#include "gemmd/v1/server.grpc.pb.h"
#include "tests/clients/warmup/run_warmup.h"
#include "tests/integration/eventually.h"
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

// Two problems are told of before either call ends.
class TwoAtATime final : public v1::KernelService::Service {
 public:
  grpc::Status TuneKernels(
      grpc::ServerContext*, const v1::TuneKernelsRequest* request,
      grpc::ServerWriter<v1::TuneKernelsResponse>* writer) override {
    const double us = static_cast<double>(request->problems(0).m());
    v1::TuneKernelsResponse tuned;
    tuned.set_us(us);
    tuned.set_us_before(us);
    writer->Write(tuned);
    ++told_;
    EXPECT_TRUE(testing::Eventually([this] { return told_ == 2; }));
    // For the client to take both.
    absl::SleepFor(absl::Milliseconds(100));
    return grpc::Status::OK;
  }

 private:
  std::atomic<int> told_ = 0;
};
class OneDevice final : public v1::ServerService::Service {
  grpc::Status GetServerInfo(grpc::ServerContext*,
                             const v1::GetServerInfoRequest*,
                             v1::ServerInfo* info) override {
    info->add_devices()->set_multiprocessors(132);
    return grpc::Status::OK;
  }
};

TEST_F(TuneTest, SaysOfEachProblemWhatBecameOfThatOne) {
  TwoAtATime kernels;
  OneDevice info;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&kernels);
  builder.RegisterService(&info);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const Outcome outcome =
      Warmup(absl::StrCat("tune --server 127.0.0.1:", port, " ", file_));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  for (const char* line : {"bf16 TN 256 1024 512: 256.00 us stay",
                           "bf16 TN 512 1024 512 d=f32: 512.00 us stay"}) {
    EXPECT_TRUE(absl::StrContains(outcome.output, line)) << outcome.output;
  }
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
