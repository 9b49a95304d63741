#include "clients/warmup/missing.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "clients/warmup/instances.h"
#include "clients/warmup/kernels.h"
#include "clients/warmup/problems.h"
#include "clients/warmup/target.h"
#include "jit/base/status.h"
#include "jit/cache/disk_store.h"

namespace gemmd::warmup {

absl::StatusOr<Missing> FindMissing(const Flags& flags,
                                    const std::string& directory) {
  ASSIGN_OR_RETURN(const jit::DeviceProperties device, Target(flags));
  ASSIGN_OR_RETURN(const jit::ProblemList problems,
                   ReadProblems(flags, {device}));
  ASSIGN_OR_RETURN(
      const std::vector<jit::Instance> wanted,
      InstancesOf(jit::TemplateLibrary::Embedded(), problems, device));
  ASSIGN_OR_RETURN(const std::vector<std::string> keys, ReadKeys(directory));
  const jit::DiskStore store = OpenToRead(directory);
  // By their sources: a kernel of the same name that other templates made does
  // not count.
  std::set<std::string> there;
  Missing missing = {.wanted = wanted.size(),
                     .multiprocessors = device.multiprocessors};
  for (const std::string& key : keys) {
    const absl::StatusOr<jit::CompiledKernel> kernel = store.Peek(key);
    if (kernel.ok()) {
      there.insert(jit::Source(kernel->source).digest());
    } else if (!absl::IsNotFound(kernel.status())) {  // Evicted meanwhile.
      missing.damaged.push_back(
          absl::StrCat(key, ": ", kernel.status().message()));
    }
  }
  for (const jit::Instance& instance : wanted) {
    if (!there.contains(instance.source.digest())) {
      missing.names.push_back(instance.name);
    }
  }
  return missing;
}

}  // namespace gemmd::warmup
