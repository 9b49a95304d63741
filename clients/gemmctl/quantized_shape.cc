#include "clients/gemmctl/quantized_shape.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "clients/gemmctl/convert.h"

namespace gemmd::gemmctl {

Matrix WithLength(Matrix matrix, v1::Order order, int64_t length,
                  v1::DataType type) {
  (order == v1::ORDER_ROW_MAJOR ? matrix.columns : matrix.rows) = length;
  matrix.type = type;
  matrix.order = order;
  matrix.bytes.clear();
  matrix.quantization.reset();
  return matrix;
}

absl::StatusOr<int32_t> GroupOf(int64_t length, int64_t groups) {
  constexpr int32_t kGroups[] = {0, 32, 64, 128};
  std::string allowed;
  for (const int32_t group : kGroups) {
    if (CountGroups(length, group) == groups) return group;
    absl::StrAppend(&allowed, allowed.empty() ? "" : ", ",
                    CountGroups(length, group), " of ",
                    group == 0 ? "all of them" : absl::StrCat(group));
  }
  return absl::InvalidArgumentError(absl::StrCat("there are scales for ",
                                                 groups, " groups of ", length,
                                                 " k; allowed: ", allowed));
}

absl::StatusOr<Ends> EndsOf(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_S4:
      return Ends{-8, 7};
    case v1::DATA_TYPE_U4:
      return Ends{0, 15};
    case v1::DATA_TYPE_S8:
      return Ends{-128, 127};
    case v1::DATA_TYPE_E4M3:
      return Ends{-448, 448};
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("elements are ", Name(type),
                       "; allowed in quantized weights: s4, u4, s8, e4m3"));
  }
}

absl::Status CheckZeros(v1::DataType type, bool zero_points) {
  if (!zero_points || type == v1::DATA_TYPE_S4 || type == v1::DATA_TYPE_U4) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "zero points do not go with ", Name(type), "; allowed: with s4 and u4"));
}

}  // namespace gemmd::gemmctl
