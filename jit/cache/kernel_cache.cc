#include "jit/cache/kernel_cache.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "jit/base/look_again.h"
#include "jit/base/sha256.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"
#include "jit/base/task_queue.h"
#include "jit/cache/build_kernel.h"
#include "jit/cache/disk_store.h"
#include "jit/cache/flight_table.h"
#include "jit/cache/key_lock.h"
#include "jit/cache/local_tiers.h"
#include "jit/cache/measured_tier.h"
#include "jit/cache/memory_store.h"
#include "jit/cache/patience.h"
#include "jit/cache/rejections.h"
#include "jit/cache/source_index.h"
#include "jit/compile/nvrtc_library.h"

namespace gemmd::jit {
namespace {

constexpr size_t kMaxRejections = 1024;
constexpr int kMaxWaitingStores = 1024;  // Of some 150 KB each.
// Who evicts keeps a thread from others. Stores to a shared tier in trouble,
// which the removal is behind, take as long each.
constexpr absl::Duration kRemovalTimeout = absl::Seconds(2);
constexpr int kMaxDefaultJobs = 16;
constexpr int kMaxJobs = 1024;  // Threads; more are of no use anywhere.
int Jobs(const KernelCache::Options& options) {
  if (options.compile_jobs > 0) {
    return std::min(options.compile_jobs, kMaxJobs);
  }
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1,
                    kMaxDefaultJobs);
}

class KernelCacheImpl final : public KernelCache {
 public:
  KernelCacheImpl(Options options, std::unique_ptr<Compiler> compiler)
      : options_(std::move(options)),
        compiler_(std::move(compiler)),
        may_compile_(compiler_ != nullptr && !options_.require_complete),
        memory_(options_.memory_bytes),
        rejections_(options_.rejection_lifetime, options_.crash_pause,
                    kMaxRejections),
        local_(LocalOptions()),
        index_(local_.stores()),
        patience_(options_.lock_timeout),
        back_fill_(options_.shared == nullptr ? 0 : 1),
        misses_(Threads()) {
    if (options_.shared != nullptr) {
      shared_ = std::make_unique<MeasuredTier>("shared", options_.shared);
    }
    if (const absl::Status status = CheckReadable(options_); !status.ok()) {
      Warn(std::string(status.message()));
    } else if (may_compile_ || shared_ != nullptr) {
      WarnOfDirectory(local_.CheckWritable());
    }
  }

  absl::StatusOr<CacheResult> Get(const Instance& instance,
                                  absl::Time deadline) override {
    return Get(instance, deadline, /*unless_elsewhere=*/false);
  }

  absl::StatusOr<CacheResult> GetUnlessElsewhere(const Instance& instance,
                                                 absl::Time deadline) override {
    return Get(instance, deadline, /*unless_elsewhere=*/true);
  }

  absl::StatusOr<CacheResult> Get(const Instance& instance, absl::Time deadline,
                                  bool unless_elsewhere) {
    std::string key =
        may_compile_ ? KeyOf(*compiler_, instance) : index_.FindKnown(instance);
    if (KernelPointer kernel = memory_.Find(key)) {
      return MemoryHit(std::move(kernel));
    }
    // Without a compiler nothing tells the key but an entry of this source.
    if (!may_compile_) key = index_.Find(instance);
    if (key.empty() && shared_ == nullptr) return Missing(instance);
    if (absl::Status rejection = rejections_.Find(key); !rejection.ok()) {
      Count(&CacheStatistics::rejected_at_once);
      return rejection;
    }
    // What has no key yet flies under its source.
    const std::string name = key.empty() ? instance.source.digest() : key;
    const auto [flight, leads] = flights_.Join(name);
    if (leads) {
      Lead(name, key, instance, flight);
      return flight->Wait(deadline, unless_elsewhere);
    }
    // What was compiled or read for another comes to this caller from memory.
    ASSIGN_OR_RETURN(CacheResult result,
                     flight->Wait(deadline, unless_elsewhere));
    return MemoryHit(std::move(result.kernel));
  }

  absl::StatusOr<CacheResult> Lookup(const Instance& instance) override {
    const std::string key =
        may_compile_ ? KeyOf(*compiler_, instance) : index_.Find(instance);
    if (KernelPointer kernel = memory_.Find(key)) {
      return MemoryHit(std::move(kernel));
    }
    if (key.empty()) return NoSuchKernel();
    // Get follows and counts the miss.
    if (KernelPointer kernel = local_.Load(key, Look::kAgain)) {
      return Hit(std::move(kernel));
    }
    return NoSuchKernel();
  }

  std::vector<EntrySummary> List(const std::string& after,
                                 size_t limit) override {
    return local_.List(memory_.List(), after, limit);
  }

  absl::StatusOr<KernelPointer> Find(const std::string& key) override {
    if (!IsSha256Hex(key)) return NoSuchKernel();
    if (KernelPointer kernel = memory_.Find(key)) return kernel;
    if (KernelPointer kernel = local_.Peek(key)) return kernel;
    return NoSuchKernel();
  }

  absl::Status Evict(const std::string& key) override {
    if (!IsSha256Hex(key)) return NoSuchKernel();
    if (local_.InLayer(key)) {
      return absl::FailedPreconditionError(
          "the kernel lies in a layer, which is only read");
    }
    // First: who asks again after a failure finds the kernel here.
    RETURN_IF_ERROR(RemoveShared(key));
    rejections_.Remove(key);
    bool removed = memory_.Remove(key);
    const absl::Status status = local_.Remove(key);
    if (!status.ok() && !absl::IsNotFound(status)) return status;
    removed |= status.ok();
    return removed ? absl::OkStatus() : NoSuchKernel();
  }

  void Quarantine(const std::string& key) override {
    if (!IsSha256Hex(key)) return;
    Count(&CacheStatistics::quarantined);
    KernelPointer kernel = memory_.Find(key);
    if (kernel == nullptr) kernel = local_.Peek(key);
    memory_.Remove(key);
    if (kernel == nullptr) return;
    local_.Quarantine(*kernel);
    if (shared_ == nullptr) return;
    back_fill_.Schedule(
        [this, key] { NoteTrouble("shared", key, shared_->Remove(key)); });
  }

  void GiveUp() override {
    giving_up_ = true;
    if (compiler_ != nullptr) compiler_->GiveUp();
  }

  void NoteUse(const std::string& key) override { local_.NoteUse(key); }
  void Flush() override { local_.Flush(); }

  CacheStatistics statistics() const override {
    CacheStatistics statistics;
    {
      std::lock_guard lock(mutex_);
      statistics = statistics_;
    }
    statistics.tiers = local_.statistics();
    if (shared_ != nullptr) statistics.tiers.push_back(shared_->statistics());
    return statistics;
  }

 private:
  // A kernel to be made, which no tier here has.
  struct Miss {
    std::string key;
    Instance instance;
    std::shared_ptr<Flight> flight;
    Patience::Wait wait;  // For another process that is making it.
  };

  LocalTiers::Options LocalOptions() {
    return {
        .directory = options_.directory,
        .limit_bytes = options_.directory_limit_bytes,
        .layers = options_.layers,
        .load_failed =
            [this](const std::string& tier, const std::string& key,
                   const absl::Status& status) {
              NoteTrouble(tier, key, status);
            },
        .write_failed =
            [this](const absl::Status& status) {
              Count(&CacheStatistics::write_errors);
              WarnOfDirectory(status);
            },
        .collected =
            [this](const Collection& done) {
              WarnOfDirectory(absl::ResourceExhaustedError(absl::StrCat(
                  "it held ", done.bytes_before,
                  " bytes, more than its limit of ",
                  *options_.directory_limit_bytes, ": ", done.entries_removed,
                  " kernels, the least recently used, were removed")));
            }};
  }

  // Of misses_: compiles run side by side; asking the shared tier alone needs
  // but one.
  int Threads() const {
    if (may_compile_) return Jobs(options_);
    return options_.shared == nullptr ? 0 : 1;
  }

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

  // Makes the flight `name` land. Directories are asked on the caller's
  // thread, so that a hit does not queue behind compiles. `key` may be empty:
  // nobody here knows it.
  void Lead(const std::string& name, const std::string& key,
            const Instance& instance, std::shared_ptr<Flight> flight) {
    // Between this caller's look into memory and its taking the lead another
    // flight may have landed.
    if (KernelPointer kernel = memory_.Find(key)) {
      flights_.Land(name, MemoryHit(std::move(kernel)));
    } else if (KernelPointer kernel =
                   key.empty() ? nullptr : local_.Load(key)) {
      flights_.Land(name, Hit(std::move(kernel)));
    } else if (may_compile_) {
      const auto miss =
          std::make_shared<Miss>(Miss{key, instance, std::move(flight)});
      misses_.Schedule([this, miss] { Make(miss); });
    } else if (shared_ != nullptr) {
      misses_.Schedule([this, name, instance] {
        flights_.Land(name, LoadShared(instance));
      });
    } else {
      flights_.Land(name, Missing(instance));
    }
  }

  CacheResult MemoryHit(KernelPointer kernel) {
    Count(&CacheStatistics::memory_hits);
    local_.NoteUse(kernel->key);
    return {std::move(kernel), CubinSource::kMemory};
  }

  CacheResult Hit(KernelPointer kernel) {
    Count(&CacheStatistics::disk_hits);
    memory_.Insert(kernel);
    return {std::move(kernel), CubinSource::kDisk};
  }

  // What the shared tier brought; null when it is of no use.
  KernelPointer Accept(const std::string& name,
                       absl::StatusOr<CompiledKernel> kernel,
                       std::shared_ptr<const void> lock) {
    if (!kernel.ok()) {
      NoteTrouble("shared", name, kernel.status());
      return nullptr;
    }
    if (local_.refused(*kernel)) return nullptr;
    auto accepted = std::make_shared<const CompiledKernel>(*std::move(kernel));
    local_.Store(accepted, std::move(lock));
    return accepted;
  }

  // Whatever compiler made it.
  absl::StatusOr<CacheResult> LoadShared(const Instance& instance) {
    KernelPointer kernel =
        Accept(instance.name, shared_->LoadFor(instance), nullptr);
    if (kernel == nullptr) return Missing(instance);
    index_.Add(Summarize(*kernel));
    return Hit(std::move(kernel));
  }

  // Takes no thread while another process is making the kernel, lest those
  // that nobody makes wait for it: comes again instead.
  void Make(const std::shared_ptr<Miss>& miss) {
    // Held until the kernel is written: then others find it.
    std::shared_ptr<KeyLock> lock;
    if (local_.writable()) {
      lock = std::make_shared<KeyLock>(options_.directory, miss->key);
      if (lock->taken() && IsWorthWaiting(*miss)) {
        miss->flight->SetElsewhere(true);
        const absl::Duration waited = SteadyNow() - miss->wait.began;
        misses_.ScheduleAfter(UntilNextLook(waited),
                              [this, miss] { Make(miss); });
        return;
      }
      miss->flight->SetElsewhere(false);
    }
    flights_.Land(miss->key, LoadOrCompile(*miss, std::move(lock)));
  }

  // For another process, which may have been stopped: if not, the kernel is
  // made twice, and the same.
  bool IsWorthWaiting(Miss& miss) {
    if (giving_up_) return false;
    if (patience_.Lasts(miss.wait)) return true;
    WarnOfDirectory(absl::UnavailableError(absl::StrCat(
        "another process began to make kernel ", miss.instance.name,
        " and has not ended after ", absl::FormatDuration(miss.wait.limit),
        "; it may have been stopped, and the kernel is made here too")));
    return false;
  }

  absl::StatusOr<CacheResult> LoadOrCompile(const Miss& miss,
                                            std::shared_ptr<KeyLock> lock) {
    const std::string& key = miss.key;
    // Another process may have made the entry since this one looked.
    if (lock != nullptr) {
      if (KernelPointer kernel = local_.Load(key, Look::kAgain)) {
        return Hit(std::move(kernel));
      }
    }
    if (giving_up_) {
      return absl::UnavailableError("the kernel was not there at the end");
    }
    if (shared_ != nullptr) {
      if (KernelPointer kernel = Accept(key, shared_->Load(key), lock)) {
        return Hit(std::move(kernel));
      }
    }
    return Compile(key, miss.instance, std::move(lock));
  }

  absl::StatusOr<CacheResult> Compile(const std::string& key,
                                      const Instance& instance,
                                      std::shared_ptr<KeyLock> lock) {
    Count(&CacheStatistics::compiles);
    absl::StatusOr<CompiledKernel> built = BuildKernel(
        *compiler_, instance, SteadyNow() + options_.compile_timeout);
    if (built.ok() && local_.refused(*built)) {
      built = absl::InternalError(absl::StrCat(
          "kernel ", instance.name, ": a device refused to load it"));
    }
    if (!built.ok()) {
      Count(&CacheStatistics::compile_errors);
      rejections_.Add(key, built.status());
      return built.status();
    }
    rejections_.Remove(key);
    auto kernel = std::make_shared<const CompiledKernel>(*std::move(built));
    memory_.Insert(kernel);
    local_.Store(kernel, std::move(lock));
    if (shared_ != nullptr) StoreShared(kernel);
    return CacheResult{std::move(kernel), CubinSource::kCompiled};
  }

  // Behind the caller. A server that is slow takes fewer than are compiled, and
  // those that wait are in memory.
  void StoreShared(const KernelPointer& kernel) {
    if (waiting_stores_ >= kMaxWaitingStores) {
      NoteTrouble(
          "shared", kernel->key,
          absl::ResourceExhaustedError(absl::StrCat(
              "not stored there: ", kMaxWaitingStores, " others wait")));
      return;
    }
    ++waiting_stores_;
    back_fill_.Schedule([this, kernel] {
      NoteTrouble("shared", kernel->key, shared_->Store(*kernel));
      --waiting_stores_;
    });
  }

  // Behind the stores that wait, of which one may be of this kernel.
  absl::Status RemoveShared(const std::string& key) {
    if (shared_ == nullptr) return absl::OkStatus();
    struct Removal {
      absl::Status status;
      absl::Notification done;
    };
    // Its turn may come when nobody waits any more.
    const auto removal = std::make_shared<Removal>();
    back_fill_.Schedule([this, key, removal] {
      removal->status = shared_->Remove(key);
      NoteTrouble("shared", key, removal->status);
      removal->done.Notify();
    });
    if (!removal->done.WaitForNotificationWithTimeout(kRemovalTimeout)) {
      return absl::UnavailableError(
          "the kernel stays, because the shared cache has yet to store others");
    }
    const absl::Status& status = removal->status;
    if (status.ok() || absl::IsNotFound(status)) return absl::OkStatus();
    return absl::UnavailableError(
        "the kernel stays, because the shared cache does not remove it; the "
        "daemon's log says why");
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

  void WarnOfDirectory(const absl::Status& status) const {
    if (status.ok()) return;
    Warn(absl::StrCat("cache directory ", options_.directory, ": ",
                      status.message()));
  }

  const Options options_;
  const std::unique_ptr<Compiler> compiler_;  // May be null.
  const bool may_compile_;
  mutable std::mutex mutex_;
  CacheStatistics statistics_ ABSL_GUARDED_BY(mutex_);  // Without tiers.
  MemoryStore memory_;
  Rejections rejections_;
  LocalTiers local_;
  std::unique_ptr<MeasuredTier> shared_;  // May be null.
  SourceIndex index_;
  FlightTable flights_;
  Patience patience_;
  std::atomic<bool> giving_up_ = false;
  std::atomic<int> waiting_stores_ = 0;  // Of the shared tier.
  // Last, so that their threads stop before what they use is destroyed;
  // misses schedule back-fills, so they stop first.
  TaskQueue back_fill_;
  TaskQueue misses_;
};

}  // namespace

absl::Status KernelCache::CheckReadable(const Options& options) {
  std::string text;
  absl::StatusCode code = absl::StatusCode::kOk;
  std::vector<std::string> directories = options.layers;
  if (!options.directory.empty()) directories.push_back(options.directory);
  for (size_t i = 0; i < directories.size(); ++i) {
    const bool layer = i < options.layers.size();
    const absl::Status status =
        DiskStore({.directory = directories[i], .read_only = layer})
            .CheckReadable();
    if (status.ok() || (!layer && absl::IsNotFound(status))) continue;
    code = status.code();
    absl::StrAppend(&text, text.empty() ? "" : "; ", "cache directory ",
                    directories[i], ": ", status.message());
  }
  return absl::Status(code, text);
}

std::unique_ptr<KernelCache> KernelCache::Create(
    Options options, std::unique_ptr<Compiler> compiler) {
  return std::make_unique<KernelCacheImpl>(std::move(options),
                                           std::move(compiler));
}

}  // namespace gemmd::jit
