#include "jit/compile/nvrtc_compiler.h"

#include <future>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "jit/compile/compile_options.h"
#include "jit/compile/compile_worker.h"
#include "jit/compile/nvrtc_compile.h"
#include "jit/compile/nvrtc_library.h"
#include "jit/compile/worker_pool.h"

namespace gemmd::jit {
namespace {

class NvrtcCompiler final : public Compiler {
 public:
  NvrtcCompiler(NvrtcLibrary library, std::unique_ptr<WorkerPool> workers,
                std::string memory)
      : library_(std::move(library)),
        workers_(std::move(workers)),
        identity_(
            std::async(std::launch::async, [this, memory = std::move(memory)] {
              return library_.ReadIdentity(memory);
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
    // What a file that was overwritten makes must not carry its old identity.
    RETURN_IF_ERROR(CheckUnchanged());
    absl::StatusOr<CompileOutput> output = CompileSource(instance, deadline);
    RETURN_IF_ERROR(CheckUnchanged());
    return output;
  }

  void GiveUp() override {
    if (workers_ != nullptr) workers_->GiveUp();
  }

  const std::string& identity() const override { return identity_.get(); }

 private:
  absl::Status CheckUnchanged() const {
    if (library_.Unchanged()) return absl::OkStatus();
    return absl::UnavailableError(
        "NVRTC was overwritten while it was in use: start this program again");
  }

  absl::StatusOr<CompileOutput> CompileSource(const Instance& instance,
                                              absl::Time deadline) {
    if (workers_ != nullptr) {
      return workers_->Compile(
          {.source = instance.source.text(), .options = CommandLine(instance)},
          deadline);
    }
    // NVRTC cannot be stopped: the deadline is not held.
    return CompileWithNvrtc(library_, instance.source.text(),
                            CommandLine(instance));
  }

  const NvrtcLibrary library_;
  const std::unique_ptr<WorkerPool> workers_;  // May be null.
  const std::shared_future<std::string> identity_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Compiler>> CreateNvrtcCompiler(
    const NvrtcCompilerOptions& options) {
  ASSIGN_OR_RETURN(NvrtcLibrary library,
                   NvrtcLibrary::Open({.path = options.nvrtc_path}));
  std::unique_ptr<WorkerPool> workers;
  if (!options.worker_program.empty()) {
    WorkerPool::Options pool = {
        .program = options.worker_program,
        .arguments = CompileWorkerArguments(library.builtins_file() >= 0,
                                            options.worker_memory_bytes),
        .files = {library.library_file()}};
    if (library.builtins_file() >= 0) {
      pool.files.push_back(library.builtins_file());
    }
    workers = std::make_unique<WorkerPool>(std::move(pool));
  }
  return std::make_unique<NvrtcCompiler>(std::move(library), std::move(workers),
                                         options.memory);
}

}  // namespace gemmd::jit
