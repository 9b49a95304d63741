#include "service/rpc/problem_list.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "service/rpc/convert.h"
#include "service/rpc/groups.h"
#include "service/rpc/wire_reader.h"

namespace gemmd::rpc {
namespace {

constexpr int kMaxProblems = 1024;
// Fields of a request and of its groups: problems, groups, and some more.
constexpr int kMaxFields = 3 * kMaxProblems;
static_assert(kMaxGroups == jit::kMaxGroupProducts);

absl::Status CheckCount(absl::string_view field, int count, int most) {
  if (count <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " has ", count, " entries; allowed: 0 to ", most));
}

// Of a message; an error where they are more than `most`.
absl::StatusOr<int> CountFields(absl::Span<const Piece> message, int most) {
  WireReader reader(message, most);
  for (int count = 0;; ++count) {
    ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) return count;
  }
}

}  // namespace

absl::Status CheckProblemCount(absl::Span<const Piece> message) {
  WireReader reader(message, kMaxFields);
  int left = kMaxFields;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) return absl::OkStatus();
    if (!reader.length_delimited() ||
        reader.number() != v1::PrepareKernelsRequest::kGroupsFieldNumber) {
      continue;
    }
    ASSIGN_OR_RETURN(const int count, CountFields(reader.value(), left));
    left -= count;
  }
}

absl::StatusOr<std::vector<jit::Problem>> ToProblems(const ProblemField& wire) {
  RETURN_IF_ERROR(CheckCount("problems", wire.size(), kMaxProblems));
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
  RETURN_IF_ERROR(CheckCount("groups", request.groups_size(), kMaxProblems));
  int count = request.problems_size();
  for (int i = 0; i < request.groups_size(); ++i) {
    const ProblemField& wire = request.groups(i).problems();
    count += wire.size();
    const absl::Status few = CheckCount("problems", wire.size(), kMaxGroups);
    if (!few.ok()) return jit::OfElement("groups", i, few);
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
