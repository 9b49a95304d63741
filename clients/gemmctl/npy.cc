#include "clients/gemmctl/npy.h"

#include <unistd.h>

#include <functional>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/gemmctl/convert.h"
#include "clients/gemmctl/input.h"
#include "clients/gemmctl/npy_header.h"
#include "jit/base/status.h"
#include "jit/problem/data_type.h"
#include "jit/problem/problem.h"
#include "proto/convert/problem.h"

namespace gemmd::gemmctl {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr char kStandard[] = "-";
constexpr size_t kMagicBytes = 6;
constexpr size_t kAlignment = 64;          // Of the data in the file.
constexpr size_t kMaxHeaderBytes = 65536;  // Any real one is below 200.
constexpr size_t kMaxDimensions = 64;      // Of numpy.
constexpr size_t kMaxStartBytes = kMagicBytes + 2 + 4 + kMaxHeaderBytes;

// A type in a file's header, and what it is taken for.
struct FileType {
  const char* name;
  v1::DataType type;
  bool is_written = false;      // Else it is read alone.
  bool has_to_be_named = true;  // By the caller.
};

constexpr FileType kTypes[] = {
    {"<f4", v1::DATA_TYPE_F32, true, false},
    {"<f2", v1::DATA_TYPE_F16, true, false},
    {"<i4", v1::DATA_TYPE_S32, true, false},
    {"|i1", v1::DATA_TYPE_S8, true, false},
    {"|u1", v1::DATA_TYPE_U8, true, false},
    {"|b1", v1::DATA_TYPE_B1, true, false},
    {"<V2", v1::DATA_TYPE_BF16, true, false},
    {"|V2", v1::DATA_TYPE_BF16, false, false},
    {"V2", v1::DATA_TYPE_BF16, false, false},
    {"bfloat16", v1::DATA_TYPE_BF16, false, false},
    {"<f1", v1::DATA_TYPE_E5M2, false, false},
    {"<u2", v1::DATA_TYPE_BF16},
    {"<i2", v1::DATA_TYPE_BF16},
    {"<V1", v1::DATA_TYPE_E4M3, true},
    {"<V1", v1::DATA_TYPE_E5M2, true},
    {"|V1", v1::DATA_TYPE_E4M3},
    {"|V1", v1::DATA_TYPE_E5M2},
    {"|i1", v1::DATA_TYPE_S4, true},
    {"|u1", v1::DATA_TYPE_U4, true},
    {"|u1", v1::DATA_TYPE_E4M3},
    {"|u1", v1::DATA_TYPE_E5M2},
};

// What to do with a type that is not multiplied; "" where nothing is near.
std::string Advice(absl::string_view name) {
  if (name == "<f8") return ". The nearest is x.astype(np.float32)";
  constexpr absl::string_view kIntegers[] = {"<i8", "<i2", "<u8", "<u4", "<u2"};
  if (!absl::c_linear_search(kIntegers, name)) return "";
  return ". The nearest is x.astype(np.int8) of -128 to 127, "
         "x.astype(np.uint8) of 0 to 255, else x.astype(np.float32), which is "
         "exact to 2^24";
}

absl::StatusOr<v1::DataType> ToType(absl::string_view name,
                                    v1::DataType named) {
  std::vector<std::string> advice;
  v1::DataType found = v1::DATA_TYPE_UNSPECIFIED;
  for (const FileType& known : kTypes) {
    if (known.name != name) continue;
    if (known.type == named) return named;
    if (!known.has_to_be_named) found = known.type;
    advice.push_back(Name(known.type));
  }
  if (found != v1::DATA_TYPE_UNSPECIFIED) return found;
  if (!advice.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its type is '", name,
        "', which may be anything of that size; --dtype ",
        absl::StrJoin(advice, " or "), " takes its elements for bits of that"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "its type is '", name,
      "'; allowed: <f4, <f2, <i4, |i1, |u1, |b1, bfloat16 as V2, e5m2 as <f1, "
      "and with --dtype e4m3 or e5m2 as V1, s4 as |i1, u4 as |u1",
      Advice(name)));
}

// The name of `type` in files that are written.
std::string FileTypeOf(v1::DataType type) {
  for (const FileType& known : kTypes) {
    if (known.type == type && known.is_written) return known.name;
  }
  return "";
}

// `dimensions`: the least number that it may have; the others are ones.
absl::Status SetShape(std::vector<int64_t> shape, size_t dimensions,
                      Matrix& matrix) {
  if (shape.size() < dimensions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its shape is (", absl::StrJoin(shape, ", "),
        shape.size() == 1 ? "," : "", "); a matrix has two dimensions"));
  }
  if (shape.size() > kMaxDimensions) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", shape.size(), " dimensions; allowed: up to ",
                     kMaxDimensions));
  }
  while (shape.size() < 2) shape.insert(shape.begin(), 1);
  matrix.columns = shape.back();
  shape.pop_back();
  matrix.rows = shape.back();
  shape.pop_back();
  matrix.batch = std::move(shape);
  return absl::OkStatus();
}

// Position of the data; sets `dict` to what is before it.
absl::StatusOr<size_t> FindData(absl::string_view file,
                                absl::string_view& dict) {
  if (file.size() < kMagicBytes + 4 ||
      !absl::StartsWith(file, absl::string_view(kMagic, kMagicBytes))) {
    return absl::InvalidArgumentError("it is not a .npy file");
  }
  const int version = static_cast<unsigned char>(file[kMagicBytes]);
  if (version < 1 || version > 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("its format version is ", version, "; known: 1 to 3"));
  }
  const size_t width = version == 1 ? 2 : 4;  // Bytes of the header's length.
  const size_t start = kMagicBytes + 2 + width;
  if (file.size() < start) return absl::InvalidArgumentError("it is cut short");
  size_t length = 0;
  for (size_t i = width; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(file[start - width + i]);
  }
  if (length > kMaxHeaderBytes || length > file.size() - start) {
    return absl::InvalidArgumentError("it is cut short");
  }
  dict = file.substr(start, length);
  return start + length;
}

// Elements that a shape has, or -1 when there is no memory that holds them.
absl::StatusOr<int64_t> Elements(const Matrix& matrix) {
  std::vector<int64_t> sides = matrix.batch;
  sides.insert(sides.end(), {matrix.rows, matrix.columns});
  const bool empty = absl::c_linear_search(sides, 0);
  // Lines without elements take no bytes of a file, but time each.
  const int64_t most =
      empty ? jit::kMaxDimension : std::numeric_limits<int64_t>::max() / 8;
  int64_t elements = 1;
  for (const int64_t side : sides) {
    if (side == 0) continue;
    if (elements > most / side) {
      if (!empty) return -1;
      return absl::InvalidArgumentError(
          absl::StrCat("it is ", matrix.shape(),
                       " and has no elements; allowed then: up to ", most,
                       " by its other dimensions"));
    }
    elements *= side;
  }
  return empty ? 0 : elements;
}

absl::StatusOr<Matrix> Parse(Input input, v1::DataType named,
                             size_t dimensions) {
  std::string start;
  RETURN_IF_ERROR(input.Fill(kMaxStartBytes, start));
  absl::string_view dict;
  ASSIGN_OR_RETURN(const size_t data, FindData(start, dict));
  ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(dict));
  Matrix matrix;
  ASSIGN_OR_RETURN(matrix.type, ToType(header.type, named));
  RETURN_IF_ERROR(SetShape(std::move(header.shape), dimensions, matrix));
  if (header.is_fortran) matrix.order = v1::ORDER_COLUMN_MAJOR;
  if (matrix.order == v1::ORDER_COLUMN_MAJOR && !matrix.batch.empty()) {
    return absl::InvalidArgumentError(
        "it is a batch in Fortran order; save np.ascontiguousarray of it");
  }
  const int64_t item = ElementBytes(matrix.type);
  ASSIGN_OR_RETURN(const int64_t elements, Elements(matrix));
  const int64_t due = elements * item;
  matrix.bytes = start.substr(data);
  // One byte more tells what is too long: a pipe may have no end.
  RETURN_IF_ERROR(input.Fill(due + 1, matrix.bytes));
  const int64_t size = std::ssize(matrix.bytes);
  if (size == due) return matrix;
  const std::string held =
      input.ended() ? absl::StrCat(size)
                    : absl::StrCat("more than ", due < 0 ? size - 1 : due);
  return absl::InvalidArgumentError(absl::StrFormat(
      "it holds %s bytes of data, which are no %s elements of %d bytes", held,
      matrix.shape(), item));
}

// What is taken for four bits has to fit them.
absl::StatusOr<Matrix> CheckedForFourBits(Matrix matrix) {
  const bool has_sign = matrix.type == v1::DATA_TYPE_S4;
  if (!has_sign && matrix.type != v1::DATA_TYPE_U4) return matrix;
  for (const char byte : matrix.bytes) {
    const int value = has_sign ? static_cast<signed char>(byte)
                               : static_cast<unsigned char>(byte);
    const int least = has_sign ? -8 : 0;
    if (value >= least && value <= least + 15) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("it has an element ", value, "; allowed as ",
                     Name(matrix.type), ": ", least, " to ", least + 15));
  }
  return matrix;
}

absl::StatusOr<Matrix> Read(const std::string& path, v1::DataType named,
                            size_t dimensions) {
  ASSIGN_OR_RETURN(Input input, Input::Open(path));
  absl::StatusOr<Matrix> matrix = Parse(std::move(input), named, dimensions);
  if (matrix.ok()) matrix = CheckedForFourBits(*std::move(matrix));
  if (matrix.ok()) return matrix;
  return absl::Status(
      matrix.status().code(),
      absl::StrCat(InputName(path), ": ", matrix.status().message()));
}

}  // namespace

int64_t Matrix::count() const {
  return absl::c_accumulate(batch, int64_t{1}, std::multiplies<>());
}

std::string Matrix::shape() const {
  std::string text;
  for (const int64_t side : batch) absl::StrAppend(&text, side, " x ");
  return absl::StrCat(text, rows, " x ", columns);
}

int BitsOf(v1::DataType type) {
  const absl::StatusOr<jit::DataType> known = convert::ToDataType(type, "type");
  CHECK(known.ok());
  return jit::BitsOf(*known);
}

int64_t ElementBytes(v1::DataType type) { return (BitsOf(type) + 7) / 8; }

absl::StatusOr<Matrix> ReadNpy(const std::string& path, v1::DataType named,
                               size_t dimensions) {
  return Read(path, named, dimensions);
}

absl::StatusOr<Matrix> ReadNpyValues(const std::string& path) {
  ASSIGN_OR_RETURN(Matrix values, Read(path, v1::DATA_TYPE_UNSPECIFIED, 0));
  if (values.type == v1::DATA_TYPE_F32) return values;
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": its elements are ", Name(values.type),
      "; values of an epilogue are f32. The nearest is x.astype(np.float32)"));
}

absl::StatusOr<cli::NewFile> StartNpy(const std::string& path,
                                      const Matrix& matrix) {
  if (!matrix.batch.empty() && matrix.order == v1::ORDER_COLUMN_MAJOR) {
    return StartNpy(path, Reorder(matrix, v1::ORDER_ROW_MAJOR));
  }
  std::string shape;
  for (const int64_t side : matrix.batch) absl::StrAppend(&shape, side, ", ");
  std::string header = absl::StrFormat(
      "{'descr': '%s', 'fortran_order': %s, 'shape': (%s%d, %d), }",
      FileTypeOf(matrix.type),
      matrix.order == v1::ORDER_COLUMN_MAJOR ? "True" : "False", shape,
      matrix.rows, matrix.columns);
  const size_t before = kMagicBytes + 4;
  const size_t unpadded = before + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  header.push_back('\n');
  if (path == kStandard && isatty(STDOUT_FILENO) == 1) {
    return absl::FailedPreconditionError(
        "a matrix is not written to a terminal; give a file or a pipe");
  }
  const char version_and_length[] = {1, 0,
                                     static_cast<char>(header.size() & 0xff),
                                     static_cast<char>(header.size() >> 8)};
  ASSIGN_OR_RETURN(cli::NewFile file, cli::NewFile::Create(path));
  RETURN_IF_ERROR(file.Write(
      absl::StrCat(kMagic, absl::string_view(version_and_length, 4), header)));
  RETURN_IF_ERROR(file.Write(matrix.bytes));
  RETURN_IF_ERROR(file.Finish());
  return file;
}

absl::Status WriteNpy(const std::string& path, const Matrix& matrix) {
  ASSIGN_OR_RETURN(cli::NewFile file, StartNpy(path, matrix));
  return file.Keep();
}

}  // namespace gemmd::gemmctl
