#include "service/rpc/problem_list.h"

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "service/rpc/convert.h"

namespace gemmd::rpc {
namespace {

constexpr int kMaxProblems = 1024;

}  // namespace

absl::StatusOr<std::vector<jit::Problem>> ToProblems(const ProblemField& wire) {
  if (wire.size() > kMaxProblems) {
    return absl::InvalidArgumentError(absl::StrCat("problems has ", wire.size(),
                                                   " entries; allowed: 0 to ",
                                                   kMaxProblems));
  }
  std::vector<jit::Problem> problems;
  for (int i = 0; i < wire.size(); ++i) {
    auto problem = ToProblem(wire[i]);
    if (!problem.ok()) {
      return absl::Status(
          problem.status().code(),
          absl::StrCat("problems[", i, "]: ", problem.status().message()));
    }
    problems.push_back(*problem);
  }
  return problems;
}

absl::StatusOr<std::vector<int>> ToDevices(Runtime& runtime,
                                           const std::string& name) {
  std::vector<int> devices;
  if (name.empty()) {
    for (int i = 0; i < runtime.engine.device_count(); ++i) {
      devices.push_back(i);
    }
  } else {
    ASSIGN_OR_RETURN(const int device, runtime.engine.ChooseDevice(name));
    devices.push_back(device);
  }
  return devices;
}

}  // namespace gemmd::rpc
