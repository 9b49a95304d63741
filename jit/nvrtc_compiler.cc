#include "jit/nvrtc_compiler.h"

#include <future>
#include <utility>
#include <vector>

#include "jit/compile_options.h"
#include "jit/nvrtc_compile.h"
#include "jit/nvrtc_library.h"
#include "jit/status.h"

namespace gemmd::jit {
namespace {

// NVRTC in this process: its front end runs one compile at a time, and a
// deadline cannot stop it.
class InProcessCompiler final : public Compiler {
 public:
  explicit InProcessCompiler(NvrtcLibrary library)
      : library_(std::move(library)),
        identity_(std::async(std::launch::async, [this] {
                    return library_.ReadIdentity();
                  }).share()) {}

  std::vector<std::string> CommandLine(
      const Instance& instance) const override {
    return CompileOptions(instance, library_.version());
  }

  absl::StatusOr<CompileOutput> Compile(const Instance& instance,
                                        absl::Time deadline) override {
    if (absl::Now() >= deadline) {
      return absl::DeadlineExceededError("no time was left to compile");
    }
    return CompileWithNvrtc(library_, instance.source, CommandLine(instance));
  }

  const std::string& identity() const override { return identity_.get(); }

 private:
  const NvrtcLibrary library_;
  const std::shared_future<std::string> identity_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Compiler>> CreateNvrtcCompiler(
    const NvrtcCompilerOptions& options) {
  ASSIGN_OR_RETURN(NvrtcLibrary library,
                   NvrtcLibrary::Open({.path = options.nvrtc_path}));
  return std::make_unique<InProcessCompiler>(std::move(library));
}

}  // namespace gemmd::jit
