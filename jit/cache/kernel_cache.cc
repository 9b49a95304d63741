#include "jit/cache/kernel_cache.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/sha256.h"
#include "jit/base/status.h"
#include "jit/base/task_queue.h"
#include "jit/cache/build_kernel.h"
#include "jit/cache/disk_store.h"
#include "jit/cache/flight_table.h"
#include "jit/cache/key_lock.h"
#include "jit/cache/measured_tier.h"
#include "jit/cache/memory_store.h"
#include "jit/cache/rejections.h"
#include "jit/cache/source_index.h"
#include "jit/compile/nvrtc_library.h"

namespace gemmd::jit {
namespace {

constexpr size_t kMaxRejections = 1024;
constexpr int kMaxDefaultJobs = 16;
constexpr int kMaxJobs = 1024;  // Threads; more are of no use anywhere.

using Stores = std::vector<std::shared_ptr<DiskStore>>;

int Jobs(const KernelCache::Options& options) {
  if (options.compile_jobs > 0) {
    return std::min(options.compile_jobs, kMaxJobs);
  }
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1,
                    kMaxDefaultJobs);
}

// The directories in the order they are asked: layers, then the writable one.
Stores OpenStores(const KernelCache::Options& options) {
  Stores stores;
  for (const std::string& layer : options.layers) {
    stores.push_back(std::make_shared<DiskStore>(
        DiskStore::Options{.directory = layer, .read_only = true}));
  }
  if (!options.directory.empty()) {
    stores.push_back(std::make_shared<DiskStore>(
        DiskStore::Options{.directory = options.directory,
                           .limit_bytes = options.directory_limit_bytes}));
  }
  return stores;
}

class KernelCacheImpl final : public KernelCache {
 public:
  KernelCacheImpl(Options options, std::unique_ptr<Compiler> compiler)
      : options_(std::move(options)),
        compiler_(std::move(compiler)),
        may_compile_(compiler_ != nullptr && !options_.require_complete),
        stores_(OpenStores(options_)),
        writable_(options_.directory.empty() ? nullptr : stores_.back()),
        memory_(options_.memory_bytes),
        rejections_(options_.rejection_lifetime, options_.crash_pause,
                    kMaxRejections),
        index_(stores_),
        back_fill_(options_.shared == nullptr ? 0 : 1),
        compiles_(may_compile_ ? Jobs(options_) : 0) {
    for (size_t i = 0; i < stores_.size(); ++i) {
      const std::string name =
          stores_[i] == writable_ ? "disk" : absl::StrCat("layer ", i);
      directories_.push_back(std::make_unique<MeasuredTier>(name, stores_[i]));
    }
    if (const absl::Status status = CheckReadable(options_); !status.ok()) {
      Warn(std::string(status.message()));
    }
    if (options_.shared != nullptr) {
      shared_ = std::make_unique<MeasuredTier>("shared", options_.shared);
    }
  }

  absl::StatusOr<CacheResult> Get(const Instance& instance,
                                  absl::Time deadline) override {
    std::string key =
        may_compile_ ? KeyOf(*compiler_, instance) : index_.FindKnown(instance);
    if (KernelPointer kernel = memory_.Find(key)) {
      Count(&CacheStatistics::memory_hits);
      return CacheResult{std::move(kernel), CubinSource::kMemory};
    }
    // Without a compiler nothing tells the key but an entry of this source.
    if (!may_compile_) key = index_.Find(instance);
    if (key.empty()) return Missing(instance);
    if (absl::Status rejection = rejections_.Find(key); !rejection.ok()) {
      Count(&CacheStatistics::rejected_at_once);
      return rejection;
    }
    const auto [flight, leads] = flights_.Join(key);
    if (leads) Lead(key, instance);
    return flight->Wait(deadline);
  }

  absl::StatusOr<CacheResult> Lookup(const Instance& instance) override {
    const std::string key =
        may_compile_ ? KeyOf(*compiler_, instance) : index_.Find(instance);
    if (KernelPointer kernel = memory_.Find(key)) {
      Count(&CacheStatistics::memory_hits);
      return CacheResult{std::move(kernel), CubinSource::kMemory};
    }
    if (key.empty()) return NoSuchKernel();
    if (KernelPointer kernel = LoadFromDirectories(key)) {
      return Hit(std::move(kernel));
    }
    return NoSuchKernel();
  }

  std::vector<KernelPointer> List() override {
    std::vector<KernelPointer> kernels = memory_.List();
    std::set<std::string> keys;
    for (const KernelPointer& kernel : kernels) keys.insert(kernel->key);
    for (const std::shared_ptr<DiskStore>& store : stores_) {
      // Being listed is no use of an entry: it changes nothing.
      DiskStore reader({.directory = store->directory(), .read_only = true});
      for (const std::string& key : reader.Keys()) {
        if (!keys.insert(key).second) continue;
        absl::StatusOr<CompiledKernel> kernel = reader.Load(key);
        if (!kernel.ok()) continue;
        kernels.push_back(
            std::make_shared<const CompiledKernel>(*std::move(kernel)));
      }
    }
    return kernels;
  }

  absl::StatusOr<KernelPointer> Find(const std::string& key) override {
    if (!IsSha256Hex(key)) return NoSuchKernel();
    if (KernelPointer kernel = memory_.Find(key)) return kernel;
    if (KernelPointer kernel = LoadFromDirectories(key)) return kernel;
    return NoSuchKernel();
  }

  absl::Status Evict(const std::string& key) override {
    if (!IsSha256Hex(key)) return NoSuchKernel();
    rejections_.Remove(key);
    bool removed = memory_.Remove(key);
    if (writable_ != nullptr) {
      const absl::Status status = writable_->Remove(key);
      if (!status.ok() && !absl::IsNotFound(status)) return status;
      removed |= status.ok();
    }
    if (LoadFromDirectories(key) != nullptr) {
      return absl::FailedPreconditionError(
          "the kernel lies in a layer, which is only read");
    }
    return removed ? absl::OkStatus() : NoSuchKernel();
  }

  void Quarantine(const std::string& key) override {
    if (!IsSha256Hex(key)) return;
    memory_.Remove(key);
    Count(&CacheStatistics::quarantined);
    if (writable_ != nullptr) writable_->Quarantine(key).IgnoreError();
  }

  void GiveUp() override {
    giving_up_ = true;
    if (compiler_ != nullptr) compiler_->GiveUp();
  }

  CacheStatistics statistics() const override {
    CacheStatistics statistics;
    {
      std::lock_guard lock(mutex_);
      statistics = statistics_;
    }
    for (const auto& tier : directories_) {
      statistics.tiers.push_back(tier->statistics());
    }
    if (shared_ != nullptr) statistics.tiers.push_back(shared_->statistics());
    return statistics;
  }

 private:
  absl::Status Missing(const Instance& instance) const {
    return absl::FailedPreconditionError(absl::StrCat(
        "kernel ", instance.name, " is not in the cache. ",
        options_.require_complete
            ? "The cache is required to be complete: prepare it with "
              "gemm-warmup."
            : kHowToGetNvrtc));
  }

  static absl::Status NoSuchKernel() {
    return absl::NotFoundError("no kernel has this key");
  }

  // Makes the flight of `key` land. Directories are asked on the caller's
  // thread, so that a hit does not queue behind compiles.
  void Lead(const std::string& key, const Instance& instance) {
    // Between this caller's look into memory and its taking the lead another
    // flight may have landed.
    if (KernelPointer kernel = memory_.Find(key)) {
      Count(&CacheStatistics::memory_hits);
      flights_.Land(key, CacheResult{std::move(kernel), CubinSource::kMemory});
    } else if (KernelPointer kernel = LoadFromDirectories(key)) {
      flights_.Land(key, Hit(std::move(kernel)));
    } else if (may_compile_) {
      compiles_.Schedule([this, key, instance] {
        flights_.Land(key, LoadSharedOrCompile(key, instance));
      });
    } else {
      flights_.Land(key, Missing(instance));
    }
  }

  CacheResult Hit(KernelPointer kernel) {
    Count(&CacheStatistics::disk_hits);
    memory_.Insert(kernel);
    return {std::move(kernel), CubinSource::kDisk};
  }

  absl::StatusOr<CacheResult> LoadSharedOrCompile(const std::string& key,
                                                  const Instance& instance) {
    const absl::Time deadline = absl::Now() + options_.compile_timeout;
    std::optional<KeyLock> lock;
    if (writable_ != nullptr) {
      lock.emplace(options_.directory, key, deadline, &giving_up_);
      // Another process may have made the entry since this one looked.
      if (KernelPointer kernel = LoadFromDirectories(key, Look::kAgain)) {
        return Hit(std::move(kernel));
      }
    }
    if (giving_up_) {
      return absl::UnavailableError("the kernel was not there at the end");
    }
    if (shared_ != nullptr) {
      absl::StatusOr<CompiledKernel> kernel = shared_->Load(key);
      if (kernel.ok()) {
        StoreOnDisk(*kernel);
        return Hit(std::make_shared<const CompiledKernel>(*std::move(kernel)));
      }
      NoteTrouble("shared", key, kernel.status());
    }
    return Compile(key, instance);
  }

  absl::StatusOr<CacheResult> Compile(const std::string& key,
                                      const Instance& instance) {
    Count(&CacheStatistics::compiles);
    absl::StatusOr<CompiledKernel> built = BuildKernel(
        *compiler_, instance, absl::Now() + options_.compile_timeout);
    if (!built.ok()) {
      Count(&CacheStatistics::compile_errors);
      rejections_.Add(key, built.status());
      return built.status();
    }
    rejections_.Remove(key);
    StoreOnDisk(*built);
    auto kernel = std::make_shared<const CompiledKernel>(*std::move(built));
    memory_.Insert(kernel);
    if (shared_ != nullptr) {
      back_fill_.Schedule([this, kernel] {
        NoteTrouble("shared", kernel->key, shared_->Store(*kernel));
      });
    }
    return CacheResult{std::move(kernel), CubinSource::kCompiled};
  }

  void StoreOnDisk(const CompiledKernel& kernel) {
    if (writable_ == nullptr) return;
    const absl::Status status = directories_.back()->Store(kernel);
    if (status.ok()) return;
    Count(&CacheStatistics::write_errors);
    Warn(absl::StrCat("cache directory ", options_.directory, ": ",
                      status.message()));
  }

  // Null when no directory has it.
  KernelPointer LoadFromDirectories(const std::string& key,
                                    Look look = Look::kFirst) {
    for (const std::unique_ptr<MeasuredTier>& tier : directories_) {
      absl::StatusOr<CompiledKernel> kernel = tier->Load(key, look);
      if (kernel.ok()) {
        return std::make_shared<const CompiledKernel>(*std::move(kernel));
      }
      NoteTrouble(tier->name(), key, kernel.status());
    }
    return nullptr;
  }

  // A miss is no trouble.
  void NoteTrouble(const std::string& tier, const std::string& key,
                   const absl::Status& status) {
    if (status.ok() || absl::IsNotFound(status)) return;
    if (absl::IsDataLoss(status)) Count(&CacheStatistics::quarantined);
    Warn(absl::StrCat("cache tier ", tier, ", entry ", key, ": ",
                      status.message()));
  }

  void Count(int64_t CacheStatistics::*counter) {
    std::lock_guard lock(mutex_);
    ++(statistics_.*counter);
  }

  void Warn(const std::string& text) const {
    if (options_.warn) options_.warn(text);
  }

  const Options options_;
  const std::unique_ptr<Compiler> compiler_;  // May be null.
  const bool may_compile_;
  const Stores stores_;
  const std::shared_ptr<DiskStore> writable_;  // The last store, or null.
  std::vector<std::unique_ptr<MeasuredTier>> directories_;  // Of stores_.
  std::unique_ptr<MeasuredTier> shared_;                    // May be null.
  MemoryStore memory_;
  Rejections rejections_;
  SourceIndex index_;
  FlightTable flights_;
  std::atomic<bool> giving_up_ = false;
  mutable std::mutex mutex_;
  CacheStatistics statistics_ ABSL_GUARDED_BY(mutex_);  // Without tiers.
  // Last, so that their threads stop before what they use is destroyed;
  // compiles schedule back-fills, so they stop first.
  TaskQueue back_fill_;
  TaskQueue compiles_;
};

}  // namespace

absl::Status KernelCache::CheckReadable(const Options& options) {
  std::string text;
  absl::StatusCode code = absl::StatusCode::kOk;
  for (const std::shared_ptr<DiskStore>& store : OpenStores(options)) {
    const absl::Status status = store->CheckReadable();
    const bool to_be_made =
        absl::IsNotFound(status) && store->directory() == options.directory;
    if (status.ok() || to_be_made) continue;
    code = status.code();
    absl::StrAppend(&text, text.empty() ? "" : "; ", "cache directory ",
                    store->directory(), ": ", status.message());
  }
  return absl::Status(code, text);
}

std::unique_ptr<KernelCache> KernelCache::Create(
    Options options, std::unique_ptr<Compiler> compiler) {
  return std::make_unique<KernelCacheImpl>(std::move(options),
                                           std::move(compiler));
}

}  // namespace gemmd::jit
