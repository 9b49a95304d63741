// The daemon's flags that decide where kernels come from, on a daemon that has
// a compiler: without one they would change nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/eventually.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using ::testing::AllOf;
using testing::DaemonProcess;
using testing::Eventually;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::OnesTimesTwos;

constexpr char kHost[] = "--device=host";
constexpr char kNvrtc[] = "--nvrtc=" GEMMD_TEST_NVRTC;

struct Answer {
  grpc::Status status;
  v1::MatmulResponse response;
};

Answer Multiply(DaemonProcess& daemon, v1::DataType type, int64_t side = 9) {
  v1::MatmulRequest request = OnesTimesTwos(side, side, 9);
  request.mutable_header()->mutable_problem()->set_d_type(type);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(120)));
  Answer answer;
  answer.status = v1::MatmulService::NewStub(daemon.Connect())
                      ->Matmul(&context, request, &answer.response);
  return answer;
}

v1::Statistics Statistics(DaemonProcess& daemon) {
  grpc::ClientContext context;
  v1::Statistics statistics;
  EXPECT_TRUE(v1::ServerService::NewStub(daemon.Connect())
                  ->GetStatistics(&context, {}, &statistics)
                  .ok());
  return statistics;
}

class CacheFlagsTest : public ::testing::Test {
 protected:
  // A directory with the kernel for f32 results.
  CacheFlagsTest() {
    DaemonProcess daemon({kHost, kNvrtc, "--cache-dir=" + prepared_});
    const Answer answer = Multiply(daemon, v1::DATA_TYPE_F32);
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    EXPECT_EQ(answer.response.execution().cubin_source(),
              v1::CUBIN_SOURCE_COMPILED);
    daemon.Signal(SIGTERM);
    EXPECT_EQ(daemon.Wait(), 0) << daemon.Log();
  }

  const testing::TemporaryFolder folder_;
  const std::string prepared_ = folder_.path() + "/prepared";
};

TEST_F(CacheFlagsTest, ALayerIsAskedBeforeTheCompiler) {
  DaemonProcess daemon({kHost, kNvrtc, "--cache-layers=" + prepared_});
  const Answer answer = Multiply(daemon, v1::DATA_TYPE_F32);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.response.execution().cubin_source(), v1::CUBIN_SOURCE_DISK);
}

// All that compiles is busy, for as long as the worker stands still.
TEST_F(CacheFlagsTest, WhatTheDirectoryHasDoesNotWaitForCompiles) {
  DaemonProcess daemon(
      {kHost, kNvrtc, "--compile-threads=1", "--cache-dir=" + prepared_});
  ASSERT_NE(daemon.Connect(), nullptr) << daemon.Log();
  auto cold = std::async(std::launch::async, [&daemon] {
    return Multiply(daemon, v1::DATA_TYPE_BF16);
  });
  EXPECT_TRUE(
      Eventually([&] { return Statistics(daemon).cache().compiles() == 1; }));
  const pid_t worker = daemon.StopCompiler();
  ASSERT_NE(worker, 0);
  const Answer there = Multiply(daemon, v1::DATA_TYPE_F32);
  EXPECT_TRUE(there.status.ok()) << there.status.error_message();
  EXPECT_EQ(there.response.execution().cubin_source(), v1::CUBIN_SOURCE_DISK);
  kill(worker, SIGCONT);
  EXPECT_EQ(cold.get().response.execution().cubin_source(),
            v1::CUBIN_SOURCE_COMPILED);
}

TEST_F(CacheFlagsTest, RedisNeedsAKeyOrLeaveToDoWithout) {
  const std::string redis = "--cache-redis=unix:" + folder_.path() + "/none";
  DaemonProcess refused({kHost, kNvrtc, redis});
  EXPECT_EQ(refused.Wait(), 2) << refused.Log();
  EXPECT_THAT(refused.Log(), HasSubstr("--cache-signing-key-file"));

  const std::string key = folder_.path() + "/key";
  std::ofstream(key) << std::string(32, 'k') << "\n";
  for (const std::string& leave :
       {"--cache-signing-key-file=" + key,
        std::string("--cache-redis-allow-unsigned")}) {
    DaemonProcess daemon({kHost, kNvrtc, redis, leave});
    ASSERT_NE(daemon.Connect(), nullptr) << daemon.Log();
    const v1::Statistics statistics = Statistics(daemon);
    ASSERT_EQ(statistics.cache().tiers_size(), 2);
    EXPECT_EQ(statistics.cache().tiers(1).name(), "shared");
  }
}

TEST_F(CacheFlagsTest, ACacheThatIsRequiredToBeCompleteCompilesNothing) {
  DaemonProcess daemon(
      {kHost, kNvrtc, "--require-complete", "--cache-dir=" + prepared_});
  const Answer there = Multiply(daemon, v1::DATA_TYPE_F32);
  EXPECT_TRUE(there.status.ok()) << there.status.error_message();
  const Answer absent = Multiply(daemon, v1::DATA_TYPE_BF16);
  EXPECT_EQ(absent.status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_THAT(absent.status.error_message(),
              HasSubstr("required to be complete"));
}

// In another order it would have been served all along: by a substitute that
// somebody else had asked for.
TEST_F(CacheFlagsTest, ACompleteCacheServesAllShapesOfItsFamilies) {
  for (const char* nvrtc : {kNvrtc, "--nvrtc=none"}) {
    DaemonProcess daemon(
        {kHost, nvrtc, "--require-complete", "--cache-dir=" + prepared_});
    const Answer first = Multiply(daemon, v1::DATA_TYPE_F32, 301);
    ASSERT_TRUE(first.status.ok()) << first.status.error_message();
    EXPECT_EQ(first.response.execution().cubin_source(), v1::CUBIN_SOURCE_DISK);
    const Answer again = Multiply(daemon, v1::DATA_TYPE_F32, 301);
    ASSERT_TRUE(again.status.ok()) << again.status.error_message();
    EXPECT_EQ(again.response.execution().cubin_source(),
              v1::CUBIN_SOURCE_LOADED);
    const Answer own = Multiply(daemon, v1::DATA_TYPE_F32);
    EXPECT_EQ(own.response.execution().kernel(),
              first.response.execution().kernel());
    // Who prepares asks for the own kernel, and is told that it is missing.
    v1::PrepareKernelsRequest request;
    *request.add_problems() = OnesTimesTwos(301, 301, 9).header().problem();
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
    v1::PrepareKernelsResponse response;
    EXPECT_EQ(v1::KernelService::NewStub(daemon.Connect())
                  ->PrepareKernels(&context, request, &response)
                  .error_code(),
              grpc::FAILED_PRECONDITION);
  }
}

// It could serve nothing, and would say so one request at a time.
TEST_F(CacheFlagsTest, OnACompleteCacheThatItCannotTrustADaemonDoesNotStart) {
  std::filesystem::permissions(prepared_ + "/entries",
                               std::filesystem::perms::group_write,
                               std::filesystem::perm_options::add);
  DaemonProcess daemon(
      {kHost, kNvrtc, "--require-complete", "--cache-dir=" + prepared_});
  EXPECT_EQ(daemon.Wait(), 1) << daemon.Log();
  EXPECT_THAT(daemon.Log(), HasSubstr(prepared_));
  EXPECT_THAT(daemon.Log(), HasSubstr("can be written by others"));
}

TEST_F(CacheFlagsTest, AnEmptyCacheThatIsRequiredToBeCompleteIsSaidAtOnce) {
  for (const bool empty : {false, true}) {
    DaemonProcess daemon({kHost, kNvrtc, "--require-complete",
                          "--cache-dir=" + prepared_ + (empty ? "/no" : "")});
    const auto channel = daemon.Connect();
    ASSERT_NE(channel, nullptr) << daemon.Log();
    v1::ServerInfo info;
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
    ASSERT_TRUE(v1::ServerService::NewStub(channel)
                    ->GetServerInfo(&context, {}, &info)
                    .ok());
    EXPECT_EQ(absl::StrContains(info.ShortDebugString(), "the cache is empty"),
              empty);
    EXPECT_EQ(absl::StrContains(daemon.Log(), "the cache is empty"), empty);
  }
}

// What --preset says, once it has looked.
std::string PresetLines(DaemonProcess& daemon) {
  const absl::Time end = absl::Now() + absl::Minutes(2);
  while (absl::Now() < end) {
    std::string lines;
    for (const absl::string_view line : absl::StrSplit(daemon.Log(), '\n')) {
      if (absl::StrContains(line, "event=preset")) {
        absl::StrAppend(&lines, line, "\n");
      }
    }
    if (!lines.empty()) return lines;
    absl::SleepFor(absl::Milliseconds(20));
  }
  return "no word of a preset:\n" + daemon.Log();
}

TEST_F(CacheFlagsTest, TheLogSaysWhatTheCacheLacksForAPreset) {
  for (const bool complete : {false, true}) {
    DaemonProcess daemon({kHost, complete ? "--require-complete" : kNvrtc,
                          "--preset=qwen-2.5-7b", "--preset-tokens=64",
                          "--cache-dir=" + prepared_});
    ASSERT_NE(daemon.Connect(), nullptr) << daemon.Log();
    EXPECT_THAT(PresetLines(daemon),
                AllOf(HasSubstr("event=preset_incomplete preset=qwen-2.5-7b"),
                      HasSubstr("missing="), HasSubstr("first=gemm_")));
  }
}

TEST_F(CacheFlagsTest, APresetIsKnownAndDelaysNoEnd) {
  DaemonProcess wrong({kHost, "--preset=gpt-0"});
  EXPECT_EQ(wrong.Wait(), 2) << wrong.Log();
  // Looking at all of these takes many seconds.
  DaemonProcess daemon(
      {kHost, kNvrtc,
       "--preset=llama-3-8b,llama-3-70b,qwen-2.5-7b,deepseek-v3"});
  ASSERT_NE(daemon.Connect(), nullptr) << daemon.Log();
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.Log();
  EXPECT_THAT(daemon.Log(), Not(HasSubstr("preset=deepseek-v3")));
}

TEST_F(CacheFlagsTest, OfManyRequestsForAMissingKernelOneIsToldOfTheCompile) {
  DaemonProcess daemon({kHost, kNvrtc});
  ASSERT_NE(daemon.Connect(), nullptr) << daemon.Log();
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 16; ++i) {
    answers.push_back(std::async(std::launch::async, [&daemon] {
      return Multiply(daemon, v1::DATA_TYPE_F32);
    }));
  }
  int compiled = 0;
  for (std::future<Answer>& future : answers) {
    const Answer answer = future.get();
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    compiled +=
        answer.response.execution().cubin_source() == v1::CUBIN_SOURCE_COMPILED;
  }
  EXPECT_EQ(compiled, 1);
}

}  // namespace
}  // namespace gemmd
