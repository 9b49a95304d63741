// One place where compiled kernels are looked for and kept: a directory or a
// server. What it answers is verified; it fails no request.
#ifndef GEMMD_JIT_CACHE_TIER_H_
#define GEMMD_JIT_CACHE_TIER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "jit/compile/compiled_kernel.h"
#include "jit/source/instance.h"

namespace gemmd::jit {

// Thread-safe.
class Tier {
 public:
  virtual ~Tier() = default;

  // A verified kernel. NOT_FOUND: a miss. DATA_LOSS: there was one that cannot
  // be used, and it has been put aside or will be replaced. Others: the tier
  // is in trouble.
  virtual absl::StatusOr<CompiledKernel> Load(const std::string& key) = 0;

  // As Load, for who has no compiler and so does not know the key: what any
  // compiler made of the source of `instance`. A miss in tiers that are not
  // asked that way.
  virtual absl::StatusOr<CompiledKernel> LoadFor(const Instance& instance) {
    return absl::NotFoundError(instance.name);
  }

  // Keeps `kernel`; others may have kept it already.
  virtual absl::Status Store(const CompiledKernel& kernel) = 0;

  // Forgets it. NOT_FOUND when there was none.
  virtual absl::Status Remove(const std::string& key) = 0;
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_TIER_H_
