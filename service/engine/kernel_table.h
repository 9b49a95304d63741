// The kernels loaded on one device, and the plans made for it.
//
// Find is the hot path: one hash for a known shape, a plan (tens of
// microseconds) for a new shape of a loaded kernel. Prepare is for what has no
// loaded kernel: it costs the cache or a compile. Meanwhile FindSubstitute may
// know a loaded kernel of the family that gives the same bits, more slowly.
// Thread-safe.
#ifndef GEMMD_SERVICE_ENGINE_KERNEL_TABLE_H_
#define GEMMD_SERVICE_ENGINE_KERNEL_TABLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "jit/cache/kernel_cache.h"
#include "jit/plan/plan.h"
#include "jit/problem/problem.h"
#include "jit/source/instance.h"
#include "service/device/device.h"

namespace gemmd::engine {

struct LoadedKernel {
  jit::Family family;
  jit::Config config;
  std::string key;
  std::string name;
  std::unique_ptr<device::Kernel> kernel;
};

// All that running a problem takes but its operands. Immutable.
struct Prepared {
  jit::Plan plan;
  std::shared_ptr<const LoadedKernel> kernel;
};

enum class KernelSource { kNone, kLoaded, kMemory, kDisk, kCompiled };

struct Preparation {
  std::shared_ptr<const Prepared> prepared;
  KernelSource source = KernelSource::kNone;
  absl::Duration plan_time;
  absl::Duration compile_time;  // Cache, compiler and module load.
};

class KernelTable {
 public:
  using NewShape = std::function<void(const jit::Problem&)>;

  // All three outlive the table. `new_shape`, which may be null, is told
  // quickly of each problem of a shape that the table did not know.
  KernelTable(device::Device& device, jit::KernelCache& cache,
              const jit::TemplateLibrary& templates,
              NewShape new_shape = nullptr)
      : device_(device),
        cache_(cache),
        templates_(templates),
        new_shape_(std::move(new_shape)) {}

  // Null when no loaded kernel is that of the problem's plan. `problem` is
  // valid and writes(). Counts a hit.
  std::shared_ptr<const Prepared> Find(const jit::Problem& problem);

  // The fastest loaded kernel that can run `problem`, for use until its own is
  // there. Null when there is none that beats waiting for a compile, or when
  // its own splits k.
  std::shared_ptr<const Prepared> FindSubstitute(const jit::Problem& problem);

  // True when nobody prepares the problem's shape behind its requests: then
  // the caller does, and calls EndPreparing.
  bool BeginPreparing(const jit::Problem& problem);
  void EndPreparing(const jit::Problem& problem);

  // Plans, compiles and loads as far as needed; may take seconds. Errors are
  // those of jit::KernelCache::Get and device::Device::Load.
  absl::StatusOr<Preparation> Prepare(const jit::Problem& problem,
                                      absl::Time deadline);

  // Forgets the kernel; products that use it finish.
  void Evict(const std::string& key);

  std::vector<std::string> LoadedKeys() const;
  int64_t hits() const;

 private:
  // What a plan depends on: not the values of alpha and beta, only whether
  // they are zero.
  struct Shape {
    explicit Shape(const jit::Problem& problem);

    template <typename H>
    friend H AbslHashValue(H h, const Shape& shape) {
      return H::combine(std::move(h), shape.m, shape.n, shape.k, shape.traits);
    }
    friend bool operator==(const Shape&, const Shape&) = default;

    int64_t m, n, k;
    uint64_t traits;  // Types, orders and zeros, packed.
  };

  std::shared_ptr<const LoadedKernel> FindLoaded(const jit::Plan& plan) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remember(const jit::Problem& problem,
                std::shared_ptr<const Prepared> prepared)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<const LoadedKernel>> Load(
      const jit::Plan& plan, absl::Time deadline, KernelSource& source);

  device::Device& device_;
  jit::KernelCache& cache_;
  const jit::TemplateLibrary& templates_;
  const NewShape new_shape_;

  mutable std::mutex mutex_;
  absl::flat_hash_map<Shape, std::shared_ptr<const Prepared>> plans_
      ABSL_GUARDED_BY(mutex_);
  // Searched in line: there are dozens, and only new shapes search.
  std::vector<std::shared_ptr<const LoadedKernel>> kernels_
      ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<Shape> preparing_ ABSL_GUARDED_BY(mutex_);
  int64_t hits_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_KERNEL_TABLE_H_
