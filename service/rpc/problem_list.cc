#include "service/rpc/problem_list.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "service/rpc/convert.h"
#include "service/rpc/groups.h"

namespace gemmd::rpc {
namespace {

constexpr int kMaxProblems = 1024;
static_assert(kMaxGroups == jit::kMaxGroupProducts);

absl::Status CheckCount(int count, int most) {
  if (count <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("problems has ", count, " entries; allowed: 0 to ", most));
}

}  // namespace

absl::StatusOr<std::vector<jit::Problem>> ToProblems(const ProblemField& wire) {
  RETURN_IF_ERROR(CheckCount(wire.size(), kMaxProblems));
  std::vector<jit::Problem> problems;
  for (int i = 0; i < wire.size(); ++i) {
    auto problem = ToProblem(wire[i]);
    if (!problem.ok()) {
      return jit::OfElement("problems", i, problem.status());
    }
    problems.push_back(*problem);
  }
  return problems;
}

absl::StatusOr<jit::ProblemList> ToProblemList(
    const v1::PrepareKernelsRequest& request) {
  jit::ProblemList list;
  ASSIGN_OR_RETURN(list.problems, ToProblems(request.problems()));
  int count = request.problems_size();
  for (int i = 0; i < request.groups_size(); ++i) {
    const ProblemField& wire = request.groups(i).problems();
    count += wire.size();
    if (absl::Status many = CheckCount(wire.size(), kMaxGroups); !many.ok()) {
      return jit::OfElement("groups", i, many);
    }
    if (count > kMaxProblems) {
      return absl::InvalidArgumentError(
          absl::StrCat("problems and those of groups[0] to groups[", i,
                       "] are ", count, "; allowed: 0 to ", kMaxProblems));
    }
    auto problems = ToProblems(wire);
    if (!problems.ok()) return jit::OfElement("groups", i, problems.status());
    list.groups.push_back(*std::move(problems));
  }
  return list;
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
