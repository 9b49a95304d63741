// The kernels loaded on one device, and the plans made for it.
//
// Find is the hot path: one hash for a known shape. What it does not know,
// Choose plans (tens of microseconds): with the shape's own kernel when that is
// loaded, or with a substitute, another kernel of the family that gives the
// same bits, more slowly. Load gets a kernel from the cache or the compiler;
// one that compiler or device refuse gives way to the next best, of those that
// sum k in the same parts if there are any.
//
// What a tuner found best for a problem (jit/cache/tuning_table.h) goes before
// what the planner would choose.
//
// Bounded: the kernel that was used least recently makes room for another, and
// is unloaded once no product uses it. Thread-safe.
#ifndef GEMMD_SERVICE_ENGINE_KERNEL_TABLE_H_
#define GEMMD_SERVICE_ENGINE_KERNEL_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "jit/cache/kernel_cache.h"
#include "jit/cache/tuning_table.h"
#include "jit/plan/plan.h"
#include "jit/problem/problem.h"
#include "jit/source/instance.h"
#include "service/device/device.h"
#include "service/engine/device_health.h"
#include "service/engine/forms.h"
#include "service/engine/group_planner.h"
#include "service/engine/refusals.h"
#include "service/engine/shape.h"

namespace gemmd::engine {

struct LoadedKernel {
  jit::Family family;
  jit::Config config;
  std::string key;
  std::string name;
  std::unique_ptr<device::Kernel> kernel;
};

// How often a shape has run, and for how long. Thread-safe.
struct ShapeUse {
  // So many times, in all so long.
  void Ran(absl::Duration execute, int64_t times = 1) {
    runs.fetch_add(times, std::memory_order_relaxed);
    execute_ns.fetch_add(absl::ToInt64Nanoseconds(execute),
                         std::memory_order_relaxed);
  }

  std::atomic<int64_t> runs = 0;
  std::atomic<int64_t> execute_ns = 0;
};

// All that running a problem takes but its operands. Immutable, but for its
// use.
struct Prepared {
  jit::Plan plan;
  std::shared_ptr<const LoadedKernel> kernel;
  Forms* forms = nullptr;                   // Of the table.
  std::shared_ptr<ShapeUse> use = nullptr;  // Null of one not remembered.
};

enum class KernelSource { kNone, kLoaded, kMemory, kDisk, kCompiled };
inline constexpr size_t kKernelSources = 5;

class KernelTable {
 public:
  using NewShape = std::function<void(const jit::Problem&)>;
  using NewGroup = std::function<void(absl::Span<const jit::Problem>,
                                      const std::string& kernel)>;
  using Refused =
      std::function<void(const std::string& kernel, const absl::Status& why)>;

  struct Options {
    int max_kernels = 1024;  // Loaded at a time.
    // Told when the device is lost; may be null.
    DeviceHealth* health = nullptr;
    // Told quickly of each problem of a shape that the table did not know; may
    // be null.
    NewShape new_shape;
    // Likewise of products that go together and whose kernel is not loaded,
    // with the name of that.
    NewGroup new_group;
    // Likewise of a kernel that compiler or device refuse, which is passed over
    // for a while.
    Refused refused;
    // What tuners found out, looked up for each new shape; may be null.
    const jit::TuningTable* tuning = nullptr;
    int device = 0;  // Its index in the engine.
    // Where forms that are kept take their bytes from; without it, none are.
    Forms::Reserve reserve_form;
  };

  struct Choice {
    // Null when no loaded kernel will do: none of the family is loaded, none
    // beats waiting for a compile, or the sums would be split.
    std::shared_ptr<const Prepared> prepared;
    // The kernel to load: the problem's own, which is not loaded.
    std::optional<jit::Plan> wanted;
  };

  struct Best {
    jit::Plan plan;
    bool tuned = false;  // There is a record.
  };
  // The problem's own plan: what a tuner found, or the planner chooses, of
  // those whose kernels are not refused. The error is the refusal.
  absl::StatusOr<Best> BestPlan(const jit::Problem& problem) const;

  struct Loaded {
    std::shared_ptr<const LoadedKernel> kernel;
    KernelSource source = KernelSource::kNone;
  };
  // Where Load looks for a cubin.
  enum class Reach {
    kCache,     // In memory and on disk; what is not there is NOT_FOUND.
    kCompiler,  // Wherever it may be had; may take seconds.
    // The same, but ABORTED while another process is making it: to be asked
    // for again.
    kOwnCompiler,
  };

  // All three outlive the table.
  KernelTable(device::Device& device, jit::KernelCache& cache,
              const jit::TemplateLibrary& templates)
      : KernelTable(device, cache, templates, Options()) {}
  KernelTable(device::Device& device, jit::KernelCache& cache,
              const jit::TemplateLibrary& templates, Options options)
      : device_(device),
        cache_(cache),
        templates_(templates),
        options_(std::move(options)),
        forms_(device, options_.device, options_.reserve_form) {}

  // How `problem` runs, when that has been chosen before and nothing better
  // may have come since; else null. `problem` is valid and writes(). Counts as
  // so many `uses`.
  std::shared_ptr<const Prepared> Find(const jit::Problem& problem,
                                       int64_t uses = 1);
  // Whether Find has something, which this does not count as a find.
  bool Knows(const jit::Problem& problem) const;

  // Plans `problem` with what is loaded, and remembers that. The error is the
  // refusal of its best kernel, when the next best ones are refused too.
  absl::StatusOr<Choice> Choose(const jit::Problem& problem);

  // The same for many that are to run together (jit/plan/group_plan.h), with a
  // plan of the first but the predicted time of all. Neither a kernel nor one
  // that is wanted: they are predicted to be faster apart.
  Choice ChooseGroup(absl::Span<const jit::Problem> problems);

  // Loads the kernel of `plan`, and those of its forms. Errors are those of
  // jit::KernelCache::Get and device::Device::Load. A refusal by compiler or
  // device is remembered for a while, so that Choose passes over this kernel.
  absl::StatusOr<Loaded> Load(const jit::Plan& plan, Reach reach,
                              absl::Time deadline);
  bool Refuses(const jit::Plan& plan) const { return !refusals_.Of(plan).ok(); }

  struct Fallen {
    std::shared_ptr<const Prepared> prepared;
    KernelSource source = KernelSource::kNone;
  };
  // For who cannot compile the kernel of `problem`: any other one of its family
  // that is loaded or lies in the cache, however slow, remembered as a
  // substitute is. NOT_FOUND where there is none, or where the sums would be
  // split. Reads disks.
  absl::StatusOr<Fallen> FallBack(const jit::Problem& problem);

  // As Load, but a kernel that was not loaded before is not kept: it makes none
  // that requests use give way.
  absl::StatusOr<Loaded> LoadAside(const jit::Plan& plan, Reach reach,
                                   absl::Time deadline);

  // Forgets how problems of the class of `problem` (jit::ProblemClass) run, so
  // that they are planned anew. Requests that have the old plan run with it.
  void Replan(jit::Problem problem);

  // A shape that was found often, but that no tuner has looked at.
  struct Hot {
    jit::Problem problem;  // Of that shape.
    int64_t finds = 0;
    double predicted_us = 0;  // Of all of them together.
  };
  // The `count` of most predicted time, first, that were found `least_finds`
  // times.
  std::vector<Hot> Hottest(size_t count, int64_t least_finds) const;
  // Counts the finds of `problem` from 0 again, and asks for eight times as
  // many of them as before.
  void Cool(const jit::Problem& problem);

  // A shape that has run, since it was planned first.
  struct Used {
    jit::Problem problem;
    std::string kernel;
    int64_t runs = 0;
    absl::Duration execute;  // Of all of them.
  };
  // The `count` that executed longest, first. Looks at all shapes.
  std::vector<Used> MostUsed(size_t count) const;

  // Forgets the kernel; products that use it finish.
  void Evict(const std::string& key);

  std::vector<std::string> LoadedKeys() const;
  // Requests that Find answered.
  int64_t hits() const;
  int64_t loaded() const;
  // Shapes that Find may know.
  size_t shapes() const;

 private:
  // A substitute may cost this many predicted cycles more than the kernel that
  // it stands in for: about the half second of a compile.
  static constexpr double kMaxExcessCycles = 0.8e9;

  // A loaded kernel and the shapes that are known to run with it.
  struct Slot {
    std::shared_ptr<const LoadedKernel> kernel;
    int64_t last_use = 0;
    int64_t finds = 0;
    absl::flat_hash_set<Shape> shapes;
  };
  using Kernels = std::vector<std::shared_ptr<const LoadedKernel>>;
  struct Known {
    std::shared_ptr<const Prepared> prepared;
    Slot* slot = nullptr;
    // A substitute stands in as long as the set of kernels is the one that it
    // was chosen from, and until it is time to ask for the own kernel again.
    bool substitute = false;
    int64_t generation = 0;
    absl::Time ask_again;
    bool tuned = false;  // There is a record.
    int64_t finds = 0;   // Since it cooled.
    int cooled = 0;      // Times.
  };

  absl::StatusOr<jit::CacheResult> FindCubin(const jit::Instance& instance,
                                             Reach reach, absl::Time deadline);
  struct OnDevice {
    std::unique_ptr<device::Kernel> kernel;
    jit::CacheResult cubin;
  };
  // From the cache or the compiler onto the device.
  absl::StatusOr<OnDevice> Obtain(const jit::Instance& instance,
                                  const jit::Plan& plan, Reach reach,
                                  absl::Time deadline);
  // What derives the forms that `plan` reads.
  absl::Status LoadForms(const jit::Plan& plan, Reach reach,
                         absl::Time deadline);
  absl::Status Refuse(const std::string& kernel, absl::Status why);
  // Those of a family, in either orientation, for one product or for many.
  Kernels LoadedOf(const jit::Family& family, bool grouped) const;
  // A loaded kernel that can run `problem` in less than `excess_cycles` more
  // predicted cycles than `ideal`.
  std::optional<Prepared> FindSubstitute(const jit::Problem& problem,
                                         const jit::Plan& ideal,
                                         double excess_cycles) const;
  // With the kernel of `plan`, if it is loaded.
  std::shared_ptr<const Prepared> UseLoaded(jit::Plan plan);
  // The kernel is used.
  void Note(Slot& slot, int64_t uses) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The best kernel that can be had without compiling.
  std::optional<Prepared> FindInCache(const jit::Problem& problem,
                                      KernelSource& source);
  std::shared_ptr<const Prepared> Remember(const jit::Problem& problem,
                                           Prepared prepared, Known known)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<const LoadedKernel> Insert(
      std::shared_ptr<const LoadedKernel> kernel);
  // What they forget is added to `dropped`: unloading takes long, so that is
  // for the caller, after the lock.
  void Drop(absl::string_view name, Kernels& dropped)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeRoom(Kernels& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Slot* FindSlot(const jit::Family& family, const jit::Config& config) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // That of a plan whose kernels are all loaded: those of its forms, too.
  Slot* FindSlot(const jit::Plan& plan) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  device::Device& device_;
  jit::KernelCache& cache_;
  const jit::TemplateLibrary& templates_;
  const Options options_;
  Forms forms_;
  Refusals refusals_;
  GroupPlanner groups_;

  mutable std::mutex mutex_;
  absl::flat_hash_map<Shape, Known> plans_ ABSL_GUARDED_BY(mutex_);
  // By name of kernel, which says its family and config.
  absl::flat_hash_map<std::string, std::unique_ptr<Slot>> slots_
      ABSL_GUARDED_BY(mutex_);
  // The same by family.
  absl::flat_hash_map<std::string, std::vector<Slot*>> families_
      ABSL_GUARDED_BY(mutex_);
  // Names of kernels that FindInCache did not find, and when to look again.
  absl::flat_hash_map<std::string, absl::Time> absent_ ABSL_GUARDED_BY(mutex_);
  int64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;  // Of the set of kernels.
  int64_t uses_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t hits_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_KERNEL_TABLE_H_
