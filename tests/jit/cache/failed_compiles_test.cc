// Kernels that do not compile: what their callers are told, and when they are
// tried again.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "jit/base/steady_time.h"
#include "tests/jit/cache/kernel_cache_fixture.h"

namespace gemmd::jit {
namespace {

TEST_F(KernelCacheTest, ReportsWhatTheCompilerSaid) {
  Fail(absl::InternalError("line 7: nonsense"));
  auto cache = Open();
  const absl::Status status = cache->Get(instance_, Soon()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(absl::StrContains(status.message(), "line 7: nonsense"));
  EXPECT_EQ(cache->statistics().compile_errors, 1);
  EXPECT_TRUE(cache->List("", 10).empty());
}

TEST_F(KernelCacheTest, RefusesAKernelWithoutTheEntryPoint) {
  control_->behave = [](const Instance&, absl::Time) {
    return CompileOutput{.cubin = FakeCubin(42, 90, "other"), .log = FakeLog()};
  };
  EXPECT_EQ(Open()->Get(instance_, Soon()).status().code(),
            absl::StatusCode::kInternal);
}

TEST_F(KernelCacheTest, RefusesWhatWasRejectedWithoutCompilingAgain) {
  Fail(absl::InternalError("nonsense"));
  auto cache = Open();
  const absl::Status first = cache->Get(instance_, Soon()).status();
  EXPECT_EQ(cache->Get(instance_, Soon()).status(), first);
  EXPECT_EQ(control_->compiles, 1);
  EXPECT_EQ(cache->statistics().rejected_at_once, 1);
  // Another source is another matter.
  cache->Get({.name = "one", .source = "two"}, Soon()).status().IgnoreError();
  EXPECT_EQ(control_->compiles, 2);
}

TEST_F(KernelCacheTest, ForgetsARejectionAfterItsLifetime) {
  Fail(absl::InternalError("nonsense"));
  auto cache = Create({.rejection_lifetime = absl::Milliseconds(1)});
  EXPECT_FALSE(cache->Get(instance_, Soon()).ok());
  absl::SleepFor(absl::Milliseconds(5));
  EXPECT_FALSE(cache->Get(instance_, Soon()).ok());
  EXPECT_EQ(control_->compiles, 2);
}

TEST_F(KernelCacheTest, AnEvictionForgetsARejection) {
  Fail(absl::InternalError("nonsense"));
  auto cache = Open();
  EXPECT_FALSE(cache->Get(instance_, Soon()).ok());
  const std::string key = Key(instance_);
  cache->Evict(key).IgnoreError();
  EXPECT_FALSE(cache->Get(instance_, Soon()).ok());
  EXPECT_EQ(control_->compiles, 2);
}

TEST_F(KernelCacheTest, TriesAgainWhenTheCompilerWasInTrouble) {
  for (const absl::Status& trouble : {absl::UnavailableError("killed"),
                                      absl::ResourceExhaustedError("no memory"),
                                      absl::DeadlineExceededError("no time")}) {
    Fail(trouble);
    auto cache = Create({.crash_pause = absl::Nanoseconds(1)});
    const int before = control_->compiles;
    EXPECT_EQ(cache->Get(instance_, Soon()).status().code(), trouble.code());
    EXPECT_EQ(cache->Get(instance_, Soon()).status().code(), trouble.code());
    EXPECT_EQ(control_->compiles, before + 2);
  }
}

// As deploy/README.md says.
TEST_F(KernelCacheTest, ACompileHasTwoMinutes) {
  absl::Time deadline;
  control_->behave = [&](const Instance&, absl::Time until) {
    deadline = until;
    return CompileOutput{.cubin = FakeCubin(), .log = FakeLog()};
  };
  const absl::Time start = SteadyNow();
  EXPECT_TRUE(Open()->Get(instance_, Soon()).ok());
  EXPECT_GE(deadline, start + absl::Minutes(2));
  EXPECT_LE(deadline, SteadyNow() + absl::Minutes(2));
}

// A source that crashes the compiler would otherwise keep it busy for ever.
TEST_F(KernelCacheTest, PausesAfterACrashBeforeItTriesAgain) {
  Fail(absl::UnavailableError("crashed"));
  auto cache = Open();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(cache->Get(instance_, Soon()).status().code(),
              absl::StatusCode::kUnavailable);
  }
  EXPECT_EQ(control_->compiles, 1);
  EXPECT_EQ(cache->statistics().rejected_at_once, 9);
}

TEST_F(KernelCacheTest, EachCrashInARowDoublesThePause) {
  Fail(absl::UnavailableError("crashed"));
  constexpr absl::Duration kPause = absl::Milliseconds(40);
  auto cache = Create({.crash_pause = kPause});
  const absl::Time start = absl::Now();
  while (control_->compiles < 4) {
    cache->Get(instance_, Soon()).status().IgnoreError();
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_GE(absl::Now() - start, (1 + 2 + 4) * kPause);
}

}  // namespace
}  // namespace gemmd::jit
