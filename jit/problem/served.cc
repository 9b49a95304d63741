#include "jit/problem/served.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "jit/base/status.h"

namespace gemmd::jit {
namespace {

absl::Status Check(absl::string_view field, absl::string_view value,
                   absl::Span<const absl::string_view> served) {
  if (std::find(served.begin(), served.end(), value) != served.end()) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      absl::StrCat("problem.", field, " is ", value,
                   "; served: ", absl::StrJoin(served, ", ")));
}

}  // namespace

absl::Status CheckServed(const Problem& problem) {
  RETURN_IF_ERROR(Check("bit_operation", Name(problem.bit_operation), {"and"}));
  return Check("epilogue", problem.epilogue == Epilogue() ? "default" : "given",
               {"default"});
}

}  // namespace gemmd::jit
