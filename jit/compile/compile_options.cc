#include "jit/compile/compile_options.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace gemmd::jit {
namespace {

struct Required {
  // Spellings of the same option, long and short; the second may be empty.
  absl::string_view name;
  absl::string_view other_name;
  absl::string_view option;
  NvrtcVersion since;
};

constexpr Required kRequired[] = {
    // wgmma and setmaxnreg exist for sm_90a only.
    {"--gpu-architecture", "-arch", "--gpu-architecture=sm_90a", {12, 0}},
    {"--std", "-std", "--std=c++20", {12, 0}},
    // Registers, shared memory and spills are read from ptxas' own words.
    {"--ptxas-options", "-Xptxas", "--ptxas-options=-v", {12, 0}},
    // From 12.9 on NVRTC keeps a cache of its own through the driver.
    {"--no-cache", "-no-cache", "--no-cache", {12, 9}},
};

bool Sets(absl::string_view option, absl::string_view name) {
  return absl::StartsWith(option, name) &&
         (option.size() == name.size() || option[name.size()] == '=');
}

}  // namespace

std::vector<std::string> CompileOptions(const Instance& instance,
                                        NvrtcVersion version) {
  std::vector<std::string> options = instance.options;
  for (const Required& required : kRequired) {
    // ptxas options add up; any other option is set once.
    const bool given =
        std::any_of(instance.options.begin(), instance.options.end(),
                    [&required](const std::string& option) {
                      if (required.name == "--ptxas-options") {
                        return option == required.option;
                      }
                      return Sets(option, required.name) ||
                             Sets(option, required.other_name);
                    });
    if (!given && version >= required.since) {
      options.emplace_back(required.option);
    }
  }
  return options;
}

}  // namespace gemmd::jit
