// How the parts of a quantized matrix lie: lines of `order`, rows or columns,
// run along k. Pure functions.
#ifndef GEMMD_CLIENTS_GEMMCTL_QUANTIZED_SHAPE_H_
#define GEMMD_CLIENTS_GEMMCTL_QUANTIZED_SHAPE_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/statusor.h"
#include "clients/gemmctl/npy.h"

namespace gemmd::gemmctl {

// Elements along k, and lines of all matrices.
inline int64_t LengthOf(const Matrix& matrix, v1::Order order) {
  return order == v1::ORDER_ROW_MAJOR ? matrix.columns : matrix.rows;
}
inline int64_t LinesOf(const Matrix& matrix, v1::Order order) {
  return matrix.count() *
         (order == v1::ORDER_ROW_MAJOR ? matrix.rows : matrix.columns);
}

// Of a line in groups of so many elements, 0 being all.
inline int64_t CountGroups(int64_t length, int32_t group) {
  if (length == 0) return 0;
  return group == 0 ? 1 : (length + group - 1) / group;
}

// The reverse: of what size so many groups are. INVALID_ARGUMENT where none is.
absl::StatusOr<int32_t> GroupOf(int64_t length, int64_t groups);

// `matrix` with so many elements along k of another type, without bytes.
Matrix WithLength(Matrix matrix, v1::Order order, int64_t length,
                  v1::DataType type);

// Least and greatest elements. INVALID_ARGUMENT for other types than those of
// weights.
struct Ends {
  float least;
  float most;
};
absl::StatusOr<Ends> EndsOf(v1::DataType type);

// INVALID_ARGUMENT where the type has no zero points.
absl::Status CheckZeros(v1::DataType type, bool zero_points);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_QUANTIZED_SHAPE_H_
