// A compiler for tests: makes small cubins and logs that the cache accepts,
// counts its calls, and does what a test tells it to.
#ifndef GEMMD_TESTS_JIT_FAKE_COMPILER_H_
#define GEMMD_TESTS_JIT_FAKE_COMPILER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "jit/cache/kernel_cache.h"
#include "jit/compile/compiler.h"
#include "tests/jit/fake_cubin.h"

namespace gemmd::jit {

// A kernel whose key and cubin are right.
CompiledKernel FakeKernel(const std::string& source);

// An empty directory, removed with all it holds by the destructor.
class TemporaryDirectory {
 public:
  // In `parent`, or where the system keeps temporary files.
  explicit TemporaryDirectory(const std::string& parent = "");
  ~TemporaryDirectory();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class FakeCompiler final : public Compiler {
 public:
  // Shared with the test, which keeps it after the cache took the compiler.
  struct Control {
    std::atomic<int> compiles{0};
    std::atomic<int> running{0};
    // Called in place of success when set.
    std::function<absl::StatusOr<CompileOutput>(const Instance&, absl::Time)>
        behave;
  };

  explicit FakeCompiler(std::shared_ptr<Control> control,
                        std::string identity = "fake 1.0")
      : control_(std::move(control)), identity_(std::move(identity)) {}

  absl::StatusOr<CompileOutput> Compile(const Instance& instance,
                                        absl::Time deadline) override {
    ++control_->compiles;
    ++control_->running;
    absl::StatusOr<CompileOutput> output =
        control_->behave
            ? control_->behave(instance, deadline)
            : CompileOutput{.cubin = FakeCubin(), .log = FakeLog()};
    --control_->running;
    return output;
  }

  const std::string& identity() const override { return identity_; }

 private:
  const std::shared_ptr<Control> control_;
  const std::string identity_;
};

}  // namespace gemmd::jit

#endif  // GEMMD_TESTS_JIT_FAKE_COMPILER_H_
