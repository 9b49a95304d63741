// A cache in a directory of its own, with a compiler that does what a test
// tells it to.
#ifndef GEMMD_TESTS_JIT_CACHE_KERNEL_CACHE_FIXTURE_H_
#define GEMMD_TESTS_JIT_CACHE_KERNEL_CACHE_FIXTURE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "jit/cache/build_kernel.h"
#include "jit/cache/kernel_cache.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {

inline absl::Time Soon() { return absl::Now() + absl::Seconds(30); }

class KernelCacheTest : public testing::Test {
 protected:
  std::unique_ptr<KernelCache> Open(bool with_compiler = true) {
    return KernelCache::Create(
        {.directory = directory_.path(),
         .compile_jobs = 2,
         .warn = [this](const std::string& text) { warnings_ = text; }},
        with_compiler ? std::make_unique<FakeCompiler>(control_) : nullptr);
  }
  std::unique_ptr<KernelCache> Create(KernelCache::Options options) {
    return KernelCache::Create(std::move(options),
                               std::make_unique<FakeCompiler>(control_));
  }

  // What compiles do from now on.
  void Fail(const absl::Status& status) {
    control_->behave = [status](const Instance&, absl::Time) { return status; };
  }
  void CompileAfter(absl::Notification& go) {
    control_->behave = [&go](const Instance&, absl::Time) {
      go.WaitForNotification();
      return CompileOutput{.cubin = FakeCubin(), .log = FakeLog()};
    };
  }

  std::string Key(const Instance& instance) const {
    return KeyOf(FakeCompiler(control_), instance);
  }
  // Of the directory.
  std::filesystem::path In(const std::string& name) const {
    return std::filesystem::path(directory_.path()) / name;
  }
  std::filesystem::path EntryFile(const std::string& key) const {
    return In("entries") / key;
  }

  TemporaryDirectory directory_;
  std::shared_ptr<FakeCompiler::Control> control_ =
      std::make_shared<FakeCompiler::Control>();
  std::string warnings_;
  const Instance instance_ = {.name = "one", .source = "one"};
};

}  // namespace gemmd::jit

#endif  // GEMMD_TESTS_JIT_CACHE_KERNEL_CACHE_FIXTURE_H_
