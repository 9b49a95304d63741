#include "clients/gemmctl/sparse.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "clients/gemmctl/convert.h"
#include "jit/base/status.h"
#include "jit/problem/layout.h"
#include "jit/problem/metadata.h"
#include "proto/convert/problem.h"

namespace gemmd::gemmctl {
namespace {

// All matrices of the batch. The type is known.
jit::MatrixLayout LayoutOf(const Matrix& matrix) {
  return {convert::ToDataType(matrix.type, "type").value(),
          matrix.order == v1::ORDER_COLUMN_MAJOR ? jit::Order::kColumnMajor
                                                 : jit::Order::kRowMajor,
          matrix.rows,
          matrix.columns,
          matrix.count(),
          true};
}

// In ascending order of magnitudes; zero of zeros of both signs.
uint32_t Magnitude(jit::DataType type, const char* element) {
  uint32_t bits = 0;
  std::memcpy(&bits, element, jit::BytesOf(type));
  switch (type) {
    case jit::DataType::kU8:
      return bits;
    case jit::DataType::kS8:
      return std::abs(static_cast<int8_t>(bits));
    default:
      return bits & ((uint32_t{1} << (jit::BitsOf(type) - 1)) - 1);
  }
}

// Metadata of the `kept` elements of a chunk that have the greatest magnitudes,
// of equal ones the first: the least with places for all that are not zero.
int MetadataFor(jit::DataType type, const uint32_t* magnitudes, int chunk,
                int& values) {
  int kept = 0;  // A bit for each.
  values = 0;
  for (int i = 0; i < chunk; ++i) {
    int before = 0;
    for (int j = 0; j < chunk; ++j) {
      before += magnitudes[j] > magnitudes[i] ||
                (j < i && magnitudes[j] == magnitudes[i]);
    }
    if (magnitudes[i] != 0) ++values;
    if (magnitudes[i] != 0 && before < chunk / 2) kept |= 1 << i;
  }
  for (const int metadata : {0x4, 0x8, 0x9, 0xc, 0xd, 0xe}) {
    const jit::Places places = jit::PlacesOf(type, metadata);
    const int both = 1 << places.first | (chunk == 4 ? 1 << places.second : 0);
    const bool legal = chunk == 4 || metadata == 0x4 || metadata == 0xe;
    if (legal && (kept & ~both) == 0) return metadata;
  }
  CHECK(false);
}

// Calls visit(element in the dense line, element in the sparse line) for every
// value of a chunk.
template <typename Visit>
void ForEachValue(jit::DataType type, int64_t chunk, int metadata,
                  Visit visit) {
  const int width = jit::ChunkOf(type);
  const jit::Places places = jit::PlacesOf(type, metadata);
  visit(chunk * width + places.first, chunk * (width / 2));
  if (width == 4) visit(chunk * width + places.second, chunk * 2 + 1);
}

}  // namespace

absl::Status CheckSparseType(v1::DataType type) {
  ASSIGN_OR_RETURN(const jit::DataType known,
                   convert::ToDataType(type, "type"));
  return jit::CheckSparseType("elements are", known);
}

absl::StatusOr<Matrix> Compress(Matrix dense, v1::Order order, Excess excess) {
  RETURN_IF_ERROR(CheckSparseType(dense.type));
  dense = Reorder(std::move(dense), order);
  Matrix sparse = dense;
  sparse.sparse = true;
  const jit::MatrixLayout layout = LayoutOf(sparse);
  const int width = jit::ChunkOf(layout.type);
  const int64_t item = jit::BytesOf(layout.type);
  const bool rows = order == v1::ORDER_ROW_MAJOR;
  if (layout.width() % width != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its ", rows ? "rows" : "columns", " have ", layout.width(),
        " elements; allowed in a sparse matrix of ", Name(dense.type),
        ": multiples of ", width));
  }
  sparse.bytes.assign(SparseBytes(sparse), '\0');
  if (sparse.bytes.empty()) return sparse;
  for (int64_t line = 0; line < layout.lines(); ++line) {
    const char* const from = dense.bytes.data() + line * layout.width() * item;
    char* const to = sparse.bytes.data() + line * layout.width_bytes();
    for (int64_t chunk = 0; chunk < layout.width() / width; ++chunk) {
      uint32_t magnitudes[4];
      for (int i = 0; i < width; ++i) {
        magnitudes[i] =
            Magnitude(layout.type, from + (chunk * width + i) * item);
      }
      int values = 0;
      const int metadata = MetadataFor(layout.type, magnitudes, width, values);
      if (values > width / 2 && excess == Excess::kRefused) {
        return absl::InvalidArgumentError(
            absl::StrCat("it has ", values, " elements that are not zero at k ",
                         chunk * width, " to ", chunk * width + width - 1,
                         " of ", rows ? "row " : "column ", line,
                         "; allowed: ", width / 2, " of every ", width,
                         ". --prune keeps those of the greatest magnitude"));
      }
      ForEachValue(layout.type, chunk, metadata, [&](int64_t at, int64_t i) {
        std::memcpy(to + i * item, from + at * item, item);
      });
      char& byte = to[layout.values_bytes() + chunk / 2];
      byte = static_cast<char>(byte | metadata << chunk % 2 * 4);
    }
  }
  return sparse;
}

absl::StatusOr<Matrix> Decompress(const Matrix& sparse) {
  const jit::MatrixLayout layout = LayoutOf(sparse);
  const int width = jit::ChunkOf(layout.type);
  const int64_t item = jit::BytesOf(layout.type);
  Matrix dense = sparse;
  dense.sparse = false;
  dense.bytes.assign(layout.lines() * layout.width() * item, '\0');
  if (dense.bytes.empty()) return dense;
  for (int64_t line = 0; line < layout.lines(); ++line) {
    const char* const from = sparse.bytes.data() + line * layout.width_bytes();
    char* const to = dense.bytes.data() + line * layout.width() * item;
    const char* const metadata = from + layout.values_bytes();
    const int64_t chunks = layout.width() / width;
    const int64_t wrong = jit::FirstIllegalChunk(
        layout.type, absl::MakeConstSpan(metadata, layout.metadata_bytes()));
    if (wrong < chunks) {
      return absl::InvalidArgumentError(
          absl::StrCat("its metadata for k ", wrong * width, " to ",
                       wrong * width + width - 1, " of line ", line, " is 0x",
                       absl::Hex(jit::MetadataOf(metadata, wrong)),
                       "; allowed: ", jit::LegalMetadata(layout.type)));
    }
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      ForEachValue(layout.type, chunk, jit::MetadataOf(metadata, chunk),
                   [&](int64_t at, int64_t i) {
                     std::memcpy(to + at * item, from + i * item, item);
                   });
    }
  }
  return dense;
}

absl::StatusOr<Matrix> FromLines(Matrix file, v1::DataType type,
                                 v1::Order order) {
  if (type == v1::DATA_TYPE_UNSPECIFIED) {
    return absl::InvalidArgumentError(
        "a file of sparse lines does not say their type: --dtype does");
  }
  RETURN_IF_ERROR(CheckSparseType(type));
  if (file.type != v1::DATA_TYPE_U8) {
    return absl::InvalidArgumentError(
        absl::StrCat("elements are ", Name(file.type),
                     "; allowed: u8, the lines that gemmctl compress writes"));
  }
  file = Reorder(std::move(file), v1::ORDER_ROW_MAJOR);
  const jit::DataType known = convert::ToDataType(type, "type").value();
  // Two chunks take so many bytes of values, and one of metadata.
  const int64_t chunk = jit::ChunkOf(known);
  const int64_t pair = chunk * jit::BytesOf(known) + 1;
  const int64_t rest = file.columns % pair;
  if (rest != 0 && rest != pair / 2 + 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its lines have ", file.columns, " bytes; allowed in sparse lines of ",
        Name(type), ": multiples of ", pair, ", and ", pair / 2 + 1, " more"));
  }
  const int64_t width = (file.columns / pair * 2 + (rest == 0 ? 0 : 1)) * chunk;
  const int64_t lines = file.rows;
  file.type = type;
  file.order = order;
  file.sparse = true;
  const bool rows = order != v1::ORDER_COLUMN_MAJOR;
  file.rows = rows ? lines : width;
  file.columns = rows ? width : lines;
  return file;
}

absl::StatusOr<Matrix> ReadLines(const std::string& path, v1::DataType type,
                                 v1::Order order) {
  ASSIGN_OR_RETURN(Matrix file, ReadNpy(path));
  absl::StatusOr<Matrix> sparse = FromLines(std::move(file), type, order);
  if (sparse.ok()) return sparse;
  return absl::Status(sparse.status().code(),
                      absl::StrCat(path, ": ", sparse.status().message()));
}

Matrix ToLines(Matrix sparse) {
  const jit::MatrixLayout layout = LayoutOf(sparse);
  sparse.type = v1::DATA_TYPE_U8;
  sparse.order = v1::ORDER_ROW_MAJOR;
  sparse.sparse = false;
  sparse.rows = layout.matrix_lines();
  sparse.columns = layout.width_bytes();
  return sparse;
}

int64_t SparseBytes(const Matrix& sparse) {
  const jit::MatrixLayout layout = LayoutOf(sparse);
  return layout.lines() * layout.width_bytes();
}

}  // namespace gemmd::gemmctl
