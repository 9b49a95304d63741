// A kernel cache without a compiler: every instance "compiles" to some bytes.
#ifndef GEMMD_TESTS_SERVICE_FAKE_CACHE_H_
#define GEMMD_TESTS_SERVICE_FAKE_CACHE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "jit/cache/kernel_cache.h"

namespace gemmd::testing {

class FakeCache : public jit::KernelCache {
 public:
  absl::StatusOr<jit::CacheResult> Get(const jit::Instance& instance,
                                       absl::Time) override {
    std::unique_lock lock(mutex_);
    ++gets_;
    changed_.notify_all();
    changed_.wait(lock, [&] {
      return (!held_ || gave_up_ || passes_ > 0) &&
             !elsewhere_.contains(instance.name);
    });
    if (held_ && passes_ == 0) return absl::UnavailableError("given up");
    if (held_) --passes_;
    if (!error_.ok()) return error_;
    if (rejected_.contains(instance.name)) {
      return absl::InternalError(instance.name + " does not compile");
    }
    for (const auto& [key, kernel] : kernels_) {
      if (kernel->name == instance.name) {
        return jit::CacheResult{kernel, jit::CubinSource::kMemory};
      }
    }
    auto kernel = std::make_shared<jit::CompiledKernel>();
    kernel->key = absl::StrFormat("%064x", kernels_.size() + 1);
    kernel->name = instance.name;
    kernel->source = instance.source.text();
    if (!damaged_ && !damage_next_) kernel->cubin = "cubin";
    damage_next_ = false;
    kernels_[kernel->key] = kernel;
    return jit::CacheResult{kernel, jit::CubinSource::kCompiled};
  }

  absl::StatusOr<jit::CacheResult> GetUnlessElsewhere(
      const jit::Instance& instance, absl::Time deadline) override {
    {
      std::lock_guard lock(mutex_);
      if (elsewhere_.contains(instance.name)) {
        ++gets_;
        changed_.notify_all();
        return absl::AbortedError("another process is making the kernel");
      }
    }
    return Get(instance, deadline);
  }

  absl::StatusOr<jit::CacheResult> Lookup(
      const jit::Instance& instance) override {
    std::lock_guard lock(mutex_);
    ++lookups_;
    changed_.notify_all();
    for (const auto& [key, kernel] : kernels_) {
      if (kernel->name == instance.name) {
        return jit::CacheResult{kernel, jit::CubinSource::kMemory};
      }
    }
    return absl::NotFoundError("no such kernel");
  }

  std::vector<jit::EntrySummary> List(const std::string& after,
                                      size_t limit) override {
    std::lock_guard lock(mutex_);
    std::vector<jit::EntrySummary> list;
    for (auto at = kernels_.upper_bound(after);
         at != kernels_.end() && list.size() < limit; ++at) {
      list.push_back(jit::Summarize(*at->second));
    }
    return list;
  }
  absl::StatusOr<std::shared_ptr<const jit::CompiledKernel>> Find(
      const std::string& key) override {
    std::lock_guard lock(mutex_);
    const auto found = kernels_.find(key);
    if (found == kernels_.end()) return absl::NotFoundError("no such kernel");
    return found->second;
  }
  absl::Status Evict(const std::string& key) override {
    std::lock_guard lock(mutex_);
    if (kernels_.erase(key) == 0) return absl::NotFoundError("no such kernel");
    return absl::OkStatus();
  }
  void Quarantine(const std::string& key) override {
    std::lock_guard lock(mutex_);
    kernels_.erase(key);
    ++quarantined_;
  }
  void GiveUp() override {
    std::lock_guard lock(mutex_);
    gave_up_ = true;
    changed_.notify_all();
  }
  void NoteUse(const std::string& key) override {
    std::lock_guard lock(mutex_);
    ++notes_[key];
  }
  jit::CacheStatistics statistics() const override { return told_; }
  // What statistics() are from now on.
  void Tell(jit::CacheStatistics statistics) { told_ = std::move(statistics); }

  // While held, Get does not return.
  void Hold(bool held) {
    std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  // Held as it is, lets so many return.
  void HoldAfter(int passes) {
    std::lock_guard lock(mutex_);
    passes_ = passes;
    changed_.notify_all();
  }
  void WaitForGets(int count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kLong, [&] { return gets_ >= count; }));
  }
  void WaitForLookups(int count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, kLong, [&] { return lookups_ >= count; }));
  }
  int lookups() {
    std::lock_guard lock(mutex_);
    return lookups_;
  }
  int gets() {
    std::lock_guard lock(mutex_);
    return gets_;
  }
  int quarantined() {
    std::lock_guard lock(mutex_);
    return quarantined_;
  }
  // Uses that the cache was told of.
  int notes(const std::string& key) {
    std::lock_guard lock(mutex_);
    return notes_[key];
  }
  // Damaged cubins are empty, which the host device refuses.
  void Damage(bool damaged) {
    std::lock_guard lock(mutex_);
    damaged_ = damaged;
  }
  void DamageNext() {
    std::lock_guard lock(mutex_);
    damage_next_ = true;
  }
  // From now on the compiler rejects the kernel called `name`.
  void Reject(const std::string& name) {
    std::lock_guard lock(mutex_);
    rejected_.insert(name);
  }
  // The kernels that another process is making.
  void SetElsewhere(std::set<std::string> names) {
    std::lock_guard lock(mutex_);
    elsewhere_ = std::move(names);
    changed_.notify_all();
  }
  void Fail(absl::Status error) {
    std::lock_guard lock(mutex_);
    error_ = std::move(error);
  }

 private:
  // What takes longer has failed.
  static constexpr std::chrono::seconds kLong{30};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<jit::CompiledKernel>> kernels_;
  std::map<std::string, int> notes_;
  std::set<std::string> rejected_;
  std::set<std::string> elsewhere_;
  absl::Status error_;
  jit::CacheStatistics told_;
  int gets_ = 0;
  int lookups_ = 0;
  int quarantined_ = 0;
  bool held_ = false;
  bool gave_up_ = false;
  int passes_ = 0;
  bool damaged_ = false;
  bool damage_next_ = false;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_FAKE_CACHE_H_
