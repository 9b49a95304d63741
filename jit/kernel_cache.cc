#include "jit/kernel_cache.h"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "jit/cache_key.h"
#include "jit/compile_log.h"
#include "jit/cubin.h"
#include "jit/disk_store.h"
#include "jit/memory_store.h"
#include "jit/nvrtc_library.h"
#include "jit/sha256.h"
#include "jit/source_index.h"
#include "jit/status.h"
#include "jit/task_queue.h"

namespace gemmd::jit {
namespace {

constexpr char kProvenance[] = "gemmd 0.1.0";

// One compile that any number of callers wait for.
class Flight {
 public:
  void Land(absl::StatusOr<CacheResult> result) {
    absl::MutexLock lock(&mutex_);
    result_ = std::move(result);
    landed_ = true;
  }

  absl::StatusOr<CacheResult> Wait(absl::Time deadline) {
    absl::MutexLock lock(&mutex_);
    if (!mutex_.AwaitWithDeadline(absl::Condition(&landed_), deadline)) {
      return absl::DeadlineExceededError(
          "the kernel was still being compiled; it will be there later");
    }
    return result_;
  }

 private:
  absl::Mutex mutex_;
  bool landed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::StatusOr<CacheResult> result_ ABSL_GUARDED_BY(mutex_);
};

class KernelCacheImpl final : public KernelCache {
 public:
  KernelCacheImpl(Options options, std::unique_ptr<Compiler> compiler)
      : options_(std::move(options)),
        compiler_(std::move(compiler)),
        memory_(options_.memory_bytes),
        disk_(options_.directory),
        index_(disk_),
        queue_(compiler_ == nullptr ? 0 : Jobs(options_)) {}

  absl::StatusOr<CacheResult> Get(const Instance& instance,
                                  absl::Time deadline) override {
    const std::string key = KeyOf(instance);
    if (key.empty()) return NoCompiler(instance);
    if (KernelPointer kernel = memory_.Find(key)) {
      Count(&CacheStatistics::memory_hits);
      return CacheResult{std::move(kernel), CubinSource::kMemory};
    }
    auto [flight, leads] = Join(key);
    if (leads) Lead(key, instance, flight);
    return flight->Wait(deadline);
  }

  std::vector<KernelPointer> List() override {
    std::vector<KernelPointer> kernels = memory_.List();
    std::set<std::string> keys;
    for (const KernelPointer& kernel : kernels) keys.insert(kernel->key);
    for (const std::string& key : DiskKeys()) {
      if (keys.contains(key)) continue;
      absl::StatusOr<KernelPointer> kernel = LoadFromDisk(key);
      if (kernel.ok()) kernels.push_back(*std::move(kernel));
    }
    return kernels;
  }

  absl::StatusOr<KernelPointer> Find(const std::string& key) override {
    if (!IsSha256Hex(key)) {
      return absl::NotFoundError("a key is 64 lower-case hexadecimal digits");
    }
    if (KernelPointer kernel = memory_.Find(key)) return kernel;
    absl::StatusOr<KernelPointer> kernel = LoadFromDisk(key);
    if (!kernel.ok()) return absl::NotFoundError("no kernel has this key");
    return kernel;
  }

  absl::Status Evict(const std::string& key) override {
    if (!IsSha256Hex(key)) {
      return absl::NotFoundError("a key is 64 lower-case hexadecimal digits");
    }
    const bool in_memory = memory_.Remove(key);
    const absl::Status status = options_.directory.empty()
                                    ? absl::NotFoundError("no directory")
                                    : disk_.Remove(key);
    if (in_memory && absl::IsNotFound(status)) return absl::OkStatus();
    if (absl::IsNotFound(status)) {
      return absl::NotFoundError("no kernel has this key");
    }
    return status;
  }

  CacheStatistics statistics() const override {
    absl::MutexLock lock(&mutex_);
    return statistics_;
  }

 private:
  static int Jobs(const Options& options) {
    if (options.compile_jobs > 0) return options.compile_jobs;
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }

  // Empty when there is no compiler and no entry that another one made.
  std::string KeyOf(const Instance& instance) {
    if (compiler_ != nullptr) {
      return CacheKey(instance.source, compiler_->CommandLine(instance),
                      compiler_->identity());
    }
    return options_.directory.empty() ? "" : index_.Find(instance);
  }

  static absl::Status NoCompiler(const Instance& instance) {
    return absl::FailedPreconditionError(absl::StrCat(
        "kernel ", instance.name, " is not in the cache. ", kHowToGetNvrtc));
  }

  // The flight of `key` and whether the caller has to make it land.
  std::pair<std::shared_ptr<Flight>, bool> Join(const std::string& key) {
    absl::MutexLock lock(&mutex_);
    std::shared_ptr<Flight>& flight = flights_[key];
    const bool leads = flight == nullptr;
    if (leads) flight = std::make_shared<Flight>();
    return {flight, leads};
  }

  void Land(const std::string& key, const std::shared_ptr<Flight>& flight,
            absl::StatusOr<CacheResult> result) {
    {
      // The kernel is in memory by now: who comes later finds it there.
      absl::MutexLock lock(&mutex_);
      flights_.erase(key);
    }
    flight->Land(std::move(result));
  }

  // The disk is asked on the caller's thread, so that a hit does not queue
  // behind compiles.
  void Lead(const std::string& key, const Instance& instance,
            const std::shared_ptr<Flight>& flight) {
    // Between this caller's look into memory and its taking the lead another
    // flight may have landed.
    if (KernelPointer kernel = memory_.Find(key)) {
      Count(&CacheStatistics::memory_hits);
      Land(key, flight, CacheResult{std::move(kernel), CubinSource::kMemory});
      return;
    }
    absl::StatusOr<KernelPointer> kernel = LoadFromDisk(key);
    if (kernel.ok()) {
      Count(&CacheStatistics::disk_hits);
      memory_.Insert(*kernel);
      Land(key, flight, CacheResult{*std::move(kernel), CubinSource::kDisk});
    } else if (compiler_ == nullptr) {
      Land(key, flight, NoCompiler(instance));
    } else {
      queue_.Schedule([this, key, instance, flight] {
        Land(key, flight, CompileAndPublish(key, instance));
      });
    }
  }

  absl::StatusOr<CacheResult> CompileAndPublish(const std::string& key,
                                                const Instance& instance) {
    Count(&CacheStatistics::compiles);
    absl::StatusOr<CompiledKernel> compiled = Compile(key, instance);
    if (!compiled.ok()) {
      Count(&CacheStatistics::compile_errors);
      return absl::Status(compiled.status().code(),
                          absl::StrCat("kernel ", instance.name, ": ",
                                       compiled.status().message()));
    }
    if (!options_.directory.empty()) {
      const absl::Status stored = disk_.Store(*compiled);
      if (!stored.ok()) {
        Count(&CacheStatistics::write_errors);
        Warn(absl::StrCat("cache directory ", options_.directory, ": ",
                          stored.message()));
      }
    }
    auto kernel = std::make_shared<const CompiledKernel>(*std::move(compiled));
    memory_.Insert(kernel);
    return CacheResult{std::move(kernel), CubinSource::kCompiled};
  }

  absl::StatusOr<CompiledKernel> Compile(const std::string& key,
                                         const Instance& instance) {
    const absl::Time start = absl::Now();
    ASSIGN_OR_RETURN(
        CompileOutput output,
        compiler_->Compile(instance, start + options_.compile_timeout));
    ASSIGN_OR_RETURN(const KernelResources resources,
                     ReadCompileLog(output.log));
    CompiledKernel kernel;
    kernel.key = key;
    kernel.name = instance.name;
    kernel.source = instance.source;
    kernel.options = compiler_->CommandLine(instance);
    kernel.compiler = compiler_->identity();
    kernel.log = std::move(output.log);
    kernel.cubin = std::move(output.cubin);
    kernel.registers = resources.registers;
    kernel.static_shared_memory_bytes = resources.static_shared_memory_bytes;
    kernel.spill_bytes = resources.spill_bytes;
    kernel.compile_ms = absl::ToInt64Milliseconds(absl::Now() - start);
    kernel.provenance = kProvenance;
    const absl::Status usable = CheckCubin(kernel);
    if (!usable.ok()) return absl::InternalError(usable.message());
    return kernel;
  }

  std::vector<std::string> DiskKeys() const {
    return options_.directory.empty() ? std::vector<std::string>()
                                      : disk_.Keys();
  }

  absl::StatusOr<KernelPointer> LoadFromDisk(const std::string& key) {
    if (options_.directory.empty()) return absl::NotFoundError("no directory");
    absl::StatusOr<CompiledKernel> kernel = disk_.Load(key);
    if (kernel.ok()) {
      return std::make_shared<const CompiledKernel>(*std::move(kernel));
    }
    if (absl::IsDataLoss(kernel.status())) {
      Count(&CacheStatistics::quarantined);
      Warn(absl::StrCat("cache entry ", key, " was put into quarantine: ",
                        kernel.status().message()));
    }
    return kernel.status();
  }

  void Count(int64_t CacheStatistics::*counter) {
    absl::MutexLock lock(&mutex_);
    ++(statistics_.*counter);
  }

  void Warn(const std::string& text) const {
    if (options_.warn) options_.warn(text);
  }

  const Options options_;
  const std::unique_ptr<Compiler> compiler_;  // May be null.
  MemoryStore memory_;
  DiskStore disk_;  // Not used when there is no directory.
  SourceIndex index_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<Flight>> flights_
      ABSL_GUARDED_BY(mutex_);
  CacheStatistics statistics_ ABSL_GUARDED_BY(mutex_);
  // Last, so that its threads stop before what they use is destroyed.
  TaskQueue queue_;
};

}  // namespace

std::unique_ptr<KernelCache> KernelCache::Create(
    Options options, std::unique_ptr<Compiler> compiler) {
  return std::make_unique<KernelCacheImpl>(std::move(options),
                                           std::move(compiler));
}

}  // namespace gemmd::jit
