// Instance -> compiled kernel, through memory, disk and NVRTC.
//
// Cache trouble never fails a request: a damaged entry is quarantined and
// recompiled, an unwritable directory is counted. No request waits for a
// write: kernels reach the directory a moment later, at the latest when the
// cache is destroyed. Thread-safe; one compile per key at a time, other callers
// of the same key wait for it.
#ifndef GEMMD_JIT_CACHE_KERNEL_CACHE_H_
#define GEMMD_JIT_CACHE_KERNEL_CACHE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "jit/cache/entry.h"
#include "jit/compile/compiled_kernel.h"
#include "jit/compile/compiler.h"
#include "jit/source/instance.h"

namespace gemmd::jit {

enum class CubinSource {
  kMemory,
  kDisk,  // A directory or the shared tier: anywhere below memory.
  kCompiled,
};

struct CacheResult {
  std::shared_ptr<const CompiledKernel> kernel;
  CubinSource source;
};

// Use of one tier below memory since the cache was created.
struct TierStatistics {
  std::string name;  // "layer 0", "disk", "shared".
  int64_t hits = 0;
  int64_t misses = 0;
  int64_t errors = 0;        // Damaged entries, and trouble of the tier.
  int64_t bytes_loaded = 0;  // Of cubins.
  int64_t bytes_stored = 0;
  int64_t load_us = 0;  // Of all loads, misses too.
};

struct CacheStatistics {
  int64_t memory_hits = 0;
  int64_t disk_hits = 0;  // In any tier below memory.
  int64_t compiles = 0;
  int64_t compile_errors = 0;
  int64_t rejected_at_once = 0;  // Known not to compile.
  int64_t quarantined = 0;
  int64_t write_errors = 0;
  std::vector<TierStatistics> tiers;  // In the order they are asked.
};

class Tier;

class KernelCache {
 public:
  struct Options {
    std::string directory;  // Empty: memory only.
    // Of all files in `directory`, 0: none; told to others that use it.
    // Nothing: what was told last, else 4 GiB.
    std::optional<int64_t> directory_limit_bytes;
    // Cache directories that are only read, asked before `directory`.
    std::vector<std::string> layers;
    // A cache that machines share (jit/cache/redis_tier.h); may be null.
    std::shared_ptr<Tier> shared;
    int64_t memory_bytes = int64_t{256} << 20;
    // What is not there is an error, not a compile: for production, where
    // everything was prepared.
    bool require_complete = false;
    int compile_jobs = 0;  // Compiles at a time; 0: one per core, at most 16.
    absl::Duration compile_timeout = absl::Minutes(2);
    // How long a kernel waits for another process that has begun to make it,
    // which may have been stopped; then both make it. Longer than almost every
    // compile takes. Other kernels do not wait with it.
    absl::Duration lock_timeout = absl::Seconds(5);
    // How long a rejected instance is refused without another compile.
    absl::Duration rejection_lifetime = absl::Minutes(10);
    // How long one whose compile crashed, hung or lacked memory is refused;
    // each further failure in a row doubles it.
    absl::Duration crash_pause = absl::Seconds(1);
    // Told of trouble that no caller of Get sees. May name host paths; called
    // from any thread; null: nobody is told.
    std::function<void(const std::string&)> warn;
  };

  // `compiler` may be null: then a miss is FAILED_PRECONDITION with a text
  // that says how to get NVRTC.
  static std::unique_ptr<KernelCache> Create(
      Options options, std::unique_ptr<Compiler> compiler);
  virtual ~KernelCache() = default;

  // Why the directories of `options` cannot be read, by their paths: one that
  // is not there, or that others could have written to. A `directory` that is
  // not there will be made. Create warns of it, and of one that cannot be made
  // or written; who relies on what they hold asks before.
  static absl::Status CheckReadable(const Options& options);

  // The compiled kernel of `instance`. Errors: DEADLINE_EXCEEDED when it is
  // not there by `deadline` (the compile goes on for later callers);
  // FAILED_PRECONDITION on a miss without a compiler or with
  // `require_complete`; INTERNAL with the compiler's words when the instance
  // does not compile, spills or has its wgmma serialised; UNAVAILABLE or
  // RESOURCE_EXHAUSTED when the compiler crashed, hung or lacked memory.
  virtual absl::StatusOr<CacheResult> Get(const Instance& instance,
                                          absl::Time deadline) = 0;

  // The same for who has other kernels to get meanwhile: ABORTED at once while
  // another process is making this one. It is waited for all the same, so that
  // another call finds it or waits for it.
  virtual absl::StatusOr<CacheResult> GetUnlessElsewhere(
      const Instance& instance, absl::Time deadline) {
    return Get(instance, deadline);
  }

  // As Get without compiling, waiting, or asking another machine: NOT_FOUND
  // when neither memory nor a directory has it.
  virtual absl::StatusOr<CacheResult> Lookup(const Instance& instance) = 0;

  // Kernels in memory and in directories, in order of their keys: at most
  // `limit` of those after the key `after`, which "" is before all of.
  virtual std::vector<EntrySummary> List(const std::string& after,
                                         size_t limit) = 0;
  // NOT_FOUND when neither memory nor a directory has it.
  virtual absl::StatusOr<std::shared_ptr<const CompiledKernel>> Find(
      const std::string& key) = 0;
  // In the shared tier too. FAILED_PRECONDITION when it lies in a layer, which
  // is only read; UNAVAILABLE, and it stays here, when the shared tier does not
  // remove it within seconds.
  virtual absl::Status Evict(const std::string& key) = 0;
  // For a kernel that a device refused: forgets it, keeps its entry aside, and
  // takes the same cubin from no tier again.
  virtual void Quarantine(const std::string& key) = 0;

  // For the end of the process: compiles that run are killed and waits for
  // other processes end, both with UNAVAILABLE, as does every later miss.
  virtual void GiveUp() = 0;

  // Notes a use of a kernel that this cache brought: what is used leaves the
  // directory last. Cheap.
  virtual void NoteUse(const std::string& /*key*/) {}
  // Waits until all that was compiled lies in the directory, or will not.
  virtual void Flush() {}

  virtual CacheStatistics statistics() const = 0;
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_KERNEL_CACHE_H_
