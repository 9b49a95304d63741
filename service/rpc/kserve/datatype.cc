#include "service/rpc/kserve/datatype.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "jit/problem/arithmetic.h"
#include "service/rpc/kserve/text.h"

namespace gemmd::rpc::kserve {
namespace {

struct Named {
  jit::DataType type;
  absl::string_view name;
  inference::DataType config;
};

constexpr Named kTypes[] = {
    {jit::DataType::kF32, "FP32", inference::TYPE_FP32},
    {jit::DataType::kF16, "FP16", inference::TYPE_FP16},
    {jit::DataType::kBf16, "BF16", inference::TYPE_BF16},
    {jit::DataType::kS8, "INT8", inference::TYPE_INT8},
    {jit::DataType::kU8, "UINT8", inference::TYPE_UINT8},
    {jit::DataType::kS32, "INT32", inference::TYPE_INT32},
};

const Named* Find(jit::DataType type) {
  for (const Named& named : kTypes) {
    if (named.type == type) return &named;
  }
  return nullptr;
}

bool IsOf(Use use, jit::DataType type) {
  return use == Use::kAny ||
         absl::c_any_of(jit::Arithmetics(), [type, use](const auto& served) {
           return use == Use::kSummed ? served.accumulator == type
                                      : served.a == type || served.b == type;
         });
}

}  // namespace

absl::StatusOr<jit::DataType> ToDataType(absl::string_view name,
                                         absl::string_view what, Use use) {
  std::string allowed;
  for (const Named& named : kTypes) {
    if (!IsOf(use, named.type)) continue;
    if (named.name == name) return named.type;
    absl::StrAppend(&allowed, allowed.empty() ? "" : ", ", named.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is ", Quoted(name), "; allowed: ", allowed));
}

absl::string_view NameOf(jit::DataType type) {
  const Named* const named = Find(type);
  return named == nullptr ? "" : named->name;
}

inference::DataType ConfigOf(jit::DataType type) {
  const Named* const named = Find(type);
  return named == nullptr ? inference::TYPE_INVALID : named->config;
}

}  // namespace gemmd::rpc::kserve
