// Kernels that do not compile: what their callers are told, and when they are
// tried again.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "jit/base/steady_time.h"
#include "jit/compile/compiler.h"
#include "tests/jit/cache/kernel_cache_fixture.h"

namespace gemmd::jit {
namespace {

TEST_F(KernelCacheTest, ReportsWhatTheCompilerSaid) {
  Fail(absl::InternalError("line 7: nonsense"));
  auto cache = Open();
  const absl::Status status = cache->Get(instance_, Soon()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(), "kernel one: line 7: nonsense");
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

// Compiles until it is told to give up.
class EndlessCompiler final : public Compiler {
 public:
  explicit EndlessCompiler(absl::Notification& began) : began_(began) {}

  absl::StatusOr<CompileOutput> Compile(const Instance&, absl::Time) override {
    began_.Notify();
    given_up_.WaitForNotificationWithTimeout(absl::Seconds(20));
    return absl::UnavailableError(given_up_.HasBeenNotified() ? "given up"
                                                              : "not given up");
  }
  void GiveUp() override { given_up_.Notify(); }
  const std::string& identity() const override { return identity_; }

 private:
  absl::Notification& began_;
  absl::Notification given_up_;
  const std::string identity_ = "endless 1.0";
};

TEST_F(KernelCacheTest, TheEndDoesNotWaitForCompiles) {
  absl::Notification began;
  auto cache =
      KernelCache::Create({}, std::make_unique<EndlessCompiler>(began));
  auto result = std::async(std::launch::async,
                           [&] { return cache->Get(instance_, Soon()); });
  began.WaitForNotification();
  cache->GiveUp();
  const absl::Status status = result.get().status();
  EXPECT_EQ(status.message(), "kernel one: given up");
  // What comes later begins no compile.
  EXPECT_TRUE(absl::IsUnavailable(
      cache->Get({.name = "two", .source = "two"}, Soon()).status()));
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
