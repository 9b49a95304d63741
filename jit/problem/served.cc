#include "jit/problem/served.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "jit/base/status.h"

namespace gemmd::jit {
namespace {

// Names of arithmetics and of types of D that kernels exist for.
constexpr absl::string_view kServedArithmetics[] = {"bf16", "f16"};
constexpr absl::string_view kServedOutputs[] = {"f32", "f16", "bf16"};

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
  // The pair of types names most of an arithmetic; the rest is its variant.
  RETURN_IF_ERROR(
      Check("a_type", Name(problem.arithmetic()), kServedArithmetics));
  RETURN_IF_ERROR(Check("d_type", Name(problem.d_type), kServedOutputs));
  if (problem.reads_c()) {
    RETURN_IF_ERROR(
        Check("c_type", Name(problem.c_type), {Name(problem.d_type)}));
  }
  RETURN_IF_ERROR(Check("batch", absl::StrCat(problem.batch), {"1"}));
  RETURN_IF_ERROR(
      Check("activation", Name(problem.epilogue.activation), {"none"}));
  RETURN_IF_ERROR(Check("epilogue",
                        problem.epilogue == Epilogue() ? "default" : "given",
                        {"default"}));
  return Check("invariant", problem.invariant ? "true" : "false", {"false"});
}

}  // namespace gemmd::jit
