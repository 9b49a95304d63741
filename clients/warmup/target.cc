#include "clients/warmup/target.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "jit/base/status.h"

namespace gemmd::warmup {
namespace {

// More than any GPU has, and few enough for the planner's arithmetic, which
// wants two for CTAs that load for each other.
constexpr int64_t kMinMultiprocessors = 2;
constexpr int64_t kMaxMultiprocessors = 4096;

struct Gpu {
  const char* name;
  int multiprocessors;
};

// From NVIDIA's data sheets and architecture papers. A plan depends on nothing
// else of a Hopper GPU.
constexpr Gpu kGpus[] = {
    {"h100", 132},  // SXM5.
    {"h100-nvl", 132}, {"h100-pcie", 114}, {"h200", 132}, {"gh200", 132},
    {"h800", 132},     {"h800-pcie", 114}, {"h20", 78},
};

std::string GpuNames() {
  return absl::StrJoin(kGpus, ", ", [](std::string* out, const Gpu& gpu) {
    absl::StrAppend(out, gpu.name);
  });
}

}  // namespace

std::vector<FlagSpec> TargetFlags() {
  return {{"device", "NAME",
           absl::StrCat("The GPU that will run them: ", GpuNames(),
                        ". Default: h100.")},
          {"multiprocessors", "N",
           "Of that GPU, where it is none of these: 2 to 4096."}};
}

absl::StatusOr<jit::DeviceProperties> Target(const Flags& flags) {
  jit::DeviceProperties device;
  const std::string name =
      absl::AsciiStrToLower(flags.Get("device", kGpus[0].name));
  bool known = false;
  for (const Gpu& gpu : kGpus) {
    if (name != gpu.name) continue;
    device.multiprocessors = gpu.multiprocessors;
    known = true;
  }
  if (!known) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device is ", name, "; allowed: ", GpuNames(),
                     "; for another GPU give --multiprocessors"));
  }
  ASSIGN_OR_RETURN(const int64_t multiprocessors,
                   flags.GetInt("multiprocessors", device.multiprocessors,
                                kMinMultiprocessors, kMaxMultiprocessors));
  device.multiprocessors = static_cast<int>(multiprocessors);
  return device;
}

}  // namespace gemmd::warmup
