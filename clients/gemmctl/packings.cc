#include "clients/gemmctl/packings.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "clients/gemmctl/convert.h"
#include "clients/gemmctl/quantized_shape.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {
namespace {

// Which of eight columns each four bits of an AWQ word are, lowest first.
constexpr int kAwqOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};

absl::Status CheckWords(const Matrix& words, absl::string_view name) {
  if (words.type == v1::DATA_TYPE_S32 && words.batch.empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(name, " are ", words.shape(),
                                                 " of ", Name(words.type),
                                                 "; allowed: a matrix of s32"));
}

uint32_t WordAt(const Matrix& words, int64_t row, int64_t column) {
  uint32_t word;
  std::memcpy(&word, words.bytes.data() + 4 * (row * words.columns + column),
              4);
  return word;
}

// An element of each `bits` of a word.
struct Fields {
  int bits;
  bool along_rows;             // k, or else columns.
  const int* order = nullptr;  // Null: lowest bits first.
};

// A byte for each field, plus `more`.
Matrix Unpacked(const Matrix& words, const Fields& fields, int more) {
  const int per_word = 32 / fields.bits;
  Matrix all = words;
  all.type = v1::DATA_TYPE_U8;
  (fields.along_rows ? all.rows : all.columns) *= per_word;
  all.bytes.assign(all.rows * all.columns, '\0');
  for (int64_t row = 0; row < words.rows; ++row) {
    for (int64_t column = 0; column < words.columns; ++column) {
      const uint32_t word = WordAt(words, row, column);
      for (int i = 0; i < per_word; ++i) {
        const int place = fields.order == nullptr ? i : fields.order[i];
        const int64_t at = fields.along_rows
                               ? (row * per_word + place) * all.columns + column
                               : row * all.columns + column * per_word + place;
        const uint32_t mask = (1u << fields.bits) - 1;
        all.bytes[at] =
            static_cast<char>((word >> i * fields.bits & mask) + more);
      }
    }
  }
  return all;
}

// The first `columns` of `matrix`, which may have been padded to whole words.
absl::StatusOr<Matrix> ZerosOf(const Matrix& matrix, const Matrix& scales) {
  if (matrix.rows != scales.rows || matrix.columns < scales.columns) {
    return absl::InvalidArgumentError(
        absl::StrCat("the zero points are ", matrix.shape(),
                     "; allowed: ", scales.shape(), ", as the scales are"));
  }
  Matrix zeros = matrix;
  zeros.type = v1::DATA_TYPE_S8;
  zeros.columns = scales.columns;
  zeros.bytes.clear();
  for (int64_t row = 0; row < zeros.rows; ++row) {
    zeros.bytes.append(matrix.bytes, row * matrix.columns, zeros.columns);
  }
  return zeros;
}

absl::StatusOr<Parts> PartsOf(Matrix elements, const Matrix& zeros,
                              Matrix scales) {
  scales = Reorder(std::move(scales), v1::ORDER_ROW_MAJOR);
  ASSIGN_OR_RETURN(scales, Widen(std::move(scales)));
  if (!scales.batch.empty() || scales.columns != elements.columns) {
    return absl::InvalidArgumentError(
        absl::StrCat("the scales are ", scales.shape(), "; allowed: groups x ",
                     elements.columns));
  }
  elements.type = v1::DATA_TYPE_U4;
  Parts parts = {std::move(elements), std::move(scales), {}};
  ASSIGN_OR_RETURN(parts.zeros, ZerosOf(zeros, parts.scales));
  return parts;
}

// Refuses groups that are not of consecutive k.
absl::Status CheckAscending(const Matrix& g_idx, int64_t k, int64_t groups) {
  RETURN_IF_ERROR(CheckWords(g_idx, "numbers of g_idx"));
  if (g_idx.rows != 1 || g_idx.columns != k) {
    return absl::InvalidArgumentError(
        absl::StrCat("g_idx is ", g_idx.shape(), "; allowed: ", k, " numbers"));
  }
  ASSIGN_OR_RETURN(const int64_t group, GroupOf(k, groups));
  const int64_t size = group == 0 ? k : group;
  for (int64_t i = 0; i < k; ++i) {
    if (WordAt(g_idx, 0, i) == i / size) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "g_idx: k ", i, " is of group ", WordAt(g_idx, 0, i), ", not ",
        i / size, "; allowed: groups of ", size,
        " consecutive k. Weights in the order of activations (act-order) are "
        "not served"));
  }
  return absl::OkStatus();
}

// Elements of eight bits, whose zero points are all 128, less that.
absl::StatusOr<Parts> Signed(Parts parts) {
  for (const char zero : parts.zeros->bytes) {
    if (static_cast<unsigned char>(zero) == 128) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "a zero point is ", static_cast<unsigned char>(zero),
        "; allowed with 8 bits: 128 alone, that of symmetric weights"));
  }
  for (char& element : parts.elements.bytes) {
    element = static_cast<char>(element ^ 0x80);
  }
  parts.elements.type = v1::DATA_TYPE_S8;
  parts.zeros.reset();
  return parts;
}

absl::Status Prepare(PackedWeights& packed) {
  RETURN_IF_ERROR(CheckWords(packed.weights, "the weights"));
  RETURN_IF_ERROR(CheckWords(packed.zeros, "the zero points"));
  packed.weights = Reorder(std::move(packed.weights), v1::ORDER_ROW_MAJOR);
  packed.zeros = Reorder(std::move(packed.zeros), v1::ORDER_ROW_MAJOR);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Parts> FromGptq(PackedWeights packed,
                               const GptqOptions& options) {
  RETURN_IF_ERROR(Prepare(packed));
  ASSIGN_OR_RETURN(Parts parts,
                   PartsOf(Unpacked(packed.weights, {options.bits, true}, 0),
                           Unpacked(packed.zeros, {options.bits, false},
                                    options.zeros_plus_one ? 1 : 0),
                           std::move(packed.scales)));
  if (options.g_idx) {
    RETURN_IF_ERROR(
        CheckAscending(*options.g_idx, parts.elements.rows, parts.scales.rows));
  }
  return options.bits == 4 ? parts : Signed(std::move(parts));
}

absl::StatusOr<Parts> FromAwq(PackedWeights packed) {
  RETURN_IF_ERROR(Prepare(packed));
  const Fields fields = {4, false, kAwqOrder};
  return PartsOf(Unpacked(packed.weights, fields, 0),
                 Unpacked(packed.zeros, fields, 0), std::move(packed.scales));
}

}  // namespace gemmd::gemmctl
