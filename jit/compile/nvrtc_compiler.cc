#include "jit/compile/nvrtc_compiler.h"

#include <future>
#include <optional>
#include <utility>
#include <vector>

#include "jit/base/status.h"
#include "jit/base/steady_time.h"
#include "jit/compile/compile_options.h"
#include "jit/compile/compile_worker.h"
#include "jit/compile/nvrtc_compile.h"
#include "jit/compile/nvrtc_files.h"
#include "jit/compile/nvrtc_library.h"
#include "jit/compile/worker_pool.h"

namespace gemmd::jit {
namespace {

constexpr absl::Duration kFirstWorkerAfter = absl::Milliseconds(500);

class NvrtcCompiler final : public Compiler {
 public:
  // One of `workers` and `library` compiles.
  NvrtcCompiler(NvrtcFiles files, std::unique_ptr<WorkerPool> workers,
                std::optional<NvrtcLibrary> library, std::string memory)
      : files_(std::move(files)),
        workers_(std::move(workers)),
        library_(std::move(library)),
        identity_(
            std::async(std::launch::async, [this, memory = std::move(memory)] {
              return files_.ReadIdentity(memory);
            }).share()) {}

  std::vector<std::string> CommandLine(
      const Instance& instance) const override {
    return CompileOptions(instance, files_.version());
  }

  absl::StatusOr<CompileOutput> Compile(const Instance& instance,
                                        absl::Time deadline) override {
    if (SteadyNow() >= deadline) {
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
    if (files_.Unchanged()) return absl::OkStatus();
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
    return CompileWithNvrtc(*library_, instance.source.text(),
                            CommandLine(instance));
  }

  const NvrtcFiles files_;
  const std::unique_ptr<WorkerPool> workers_;  // May be null.
  const std::optional<NvrtcLibrary> library_;
  const std::shared_future<std::string> identity_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Compiler>> CreateNvrtcCompiler(
    const NvrtcCompilerOptions& options) {
  if (options.worker_program.empty()) {
    ASSIGN_OR_RETURN(const NvrtcLibrary library,
                     NvrtcLibrary::Open({.path = options.nvrtc_path}));
    return std::make_unique<NvrtcCompiler>(library.files(), nullptr, library,
                                           options.memory);
  }
  ASSIGN_OR_RETURN(FoundNvrtc found,
                   FindNvrtc({.path = options.nvrtc_path}, options.memory));
  const bool has_builtins = found.files.builtins_file() >= 0;
  WorkerPool::Options pool = {.program = options.worker_program,
                              .arguments = CompileWorkerArguments(
                                  has_builtins, options.worker_memory_bytes),
                              .files = {found.files.library_file()}};
  if (has_builtins) pool.files.push_back(found.files.builtins_file());
  // A cache that knows the compiler has kernels of it, too: what needs one of
  // them first must not share the processors with a worker that starts.
  if (!found.loaded) pool.first_after = kFirstWorkerAfter;
  return std::make_unique<NvrtcCompiler>(
      std::move(found.files), std::make_unique<WorkerPool>(std::move(pool)),
      std::nullopt, options.memory);
}

}  // namespace gemmd::jit
