#include "clients/gemmctl/metadata_order.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "clients/gemmctl/convert.h"
#include "clients/gemmctl/sparse.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {
namespace {

// How words of so many bytes are stored.
struct WordOrder {
  int64_t bytes;
  int64_t lines;

  // Lines whose words lie among each other.
  int64_t group() const { return bytes == 2 ? 32 : 16; }
  int64_t IndexOf(int64_t line, int64_t place) const {
    const int64_t eights = line % group() / 8;
    const int64_t woven =
        (line / group() * 8 + line % 8) * (group() / 16) + eights / 2;
    return place / 2 * 2 * lines + woven * 4 + place % 2 * 2 + eights % 2;
  }
};

absl::Status Check(const Matrix& values, const Matrix& words,
                   const WordOrder& order, int64_t values_of_word) {
  if (values.rows % order.group() != 0 ||
      values.columns % (2 * values_of_word) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the values are ", values.shape(), "; allowed in CUTLASS's order of ",
        Name(values.type), ": lines in multiples of ", order.group(),
        ", of multiples of ", 2 * values_of_word, " values"));
  }
  Matrix due = values;
  due.columns = values.columns / values_of_word;
  if (words.shape() == due.shape() && ElementBytes(words.type) == order.bytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the metadata are ", words.shape(), " words of ",
                   8 * ElementBytes(words.type),
                   " bits; allowed: ", due.shape(), " of ", 8 * order.bytes));
}

}  // namespace

absl::StatusOr<Matrix> FromCutlass(Matrix values, Matrix words,
                                   v1::Order order) {
  RETURN_IF_ERROR(CheckSparseType(values.type));
  values = Reorder(std::move(values), v1::ORDER_ROW_MAJOR);
  words = Reorder(std::move(words), v1::ORDER_ROW_MAJOR);
  const int64_t item = ElementBytes(values.type);
  const WordOrder stored = {item == 1 ? 4 : 2, values.rows};
  // A value for every two elements of f32, two for every four of others.
  const bool is_f32 = values.type == v1::DATA_TYPE_F32;
  const int64_t values_of_word = stored.bytes * 2 * (is_f32 ? 1 : 2);
  RETURN_IF_ERROR(Check(values, words, stored, values_of_word));
  Matrix sparse = values;
  sparse.bytes.clear();
  for (int64_t i = 0; i < values.count(); ++i) {
    for (int64_t line = 0; line < values.rows; ++line) {
      const int64_t bytes = values.columns * item;
      sparse.bytes.append(values.bytes, (i * values.rows + line) * bytes,
                          bytes);
      for (int64_t place = 0; place < words.columns; ++place) {
        const int64_t at =
            i * words.rows * words.columns + stored.IndexOf(line, place);
        sparse.bytes.append(words.bytes, at * stored.bytes, stored.bytes);
      }
    }
  }
  sparse.sparse = true;
  sparse.order = order;
  sparse.columns = 2 * values.columns;
  if (order == v1::ORDER_COLUMN_MAJOR) std::swap(sparse.rows, sparse.columns);
  RETURN_IF_ERROR(Decompress(sparse).status());
  return sparse;
}

}  // namespace gemmd::gemmctl
