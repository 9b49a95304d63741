#include "clients/gemmctl/npy.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr char kStandard[] = "-";
constexpr size_t kMagicBytes = 6;
constexpr size_t kAlignment = 64;          // Of the data in the file.
constexpr size_t kMaxHeaderBytes = 65536;  // Any real one is below 200.

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  if (path == kStandard) {
    std::string content(std::istreambuf_iterator<char>(std::cin), {});
    if (!std::cin.bad()) return content;
    return absl::UnavailableError("standard input cannot be read");
  }
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("open ", path));
  }
  std::ifstream file(path, std::ios::binary);
  std::string content(size, '\0');
  if (!file.read(content.data(), size)) {
    return absl::ErrnoToStatus(errno, absl::StrCat("read ", path));
  }
  return content;
}

// What follows 'key': in the header's dict, with leading blanks removed.
absl::StatusOr<absl::string_view> Value(absl::string_view header,
                                        absl::string_view key) {
  const size_t at = header.find(absl::StrCat("'", key, "'"));
  if (at == absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("the header has no '", key, "'"));
  }
  absl::string_view rest =
      absl::StripLeadingAsciiWhitespace(header.substr(at + key.size() + 2));
  if (!absl::ConsumePrefix(&rest, ":")) {
    return absl::InvalidArgumentError("the header is malformed");
  }
  return absl::StripLeadingAsciiWhitespace(rest);
}

absl::StatusOr<v1::DataType> ParseType(absl::string_view header,
                                       bool u2_is_bf16) {
  ASSIGN_OR_RETURN(absl::string_view value, Value(header, "descr"));
  if (!absl::ConsumePrefix(&value, "'")) {
    return absl::InvalidArgumentError("structured types are no matrices");
  }
  const absl::string_view name = value.substr(0, value.find('\''));
  if (name == "<f4") return v1::DATA_TYPE_F32;
  if (name == "<f2") return v1::DATA_TYPE_F16;
  for (absl::string_view bf16 : {"<V2", "|V2", "V2", "bfloat16"}) {
    if (name == bf16) return v1::DATA_TYPE_BF16;
  }
  if (name == "<u2" && u2_is_bf16) return v1::DATA_TYPE_BF16;
  return absl::InvalidArgumentError(absl::StrCat(
      "its type is '", name, "'; allowed: <f4, <f2, bfloat16 as V2",
      name == "<u2" ? "; --dtype bf16 takes its integers for bits of bfloat16"
                    : ""));
}

absl::Status ParseShape(absl::string_view header, Matrix& matrix) {
  ASSIGN_OR_RETURN(absl::string_view value, Value(header, "shape"));
  const size_t end = value.find(')');
  if (!absl::ConsumePrefix(&value, "(") || end == absl::string_view::npos) {
    return absl::InvalidArgumentError("its shape is malformed");
  }
  const absl::string_view inside = value.substr(0, end - 1);
  const std::vector<absl::string_view> sides =
      absl::StrSplit(inside, ',', absl::SkipWhitespace());
  if (sides.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "its shape is (", inside, "); a matrix has two dimensions"));
  }
  if (!absl::SimpleAtoi(sides[0], &matrix.rows) ||
      !absl::SimpleAtoi(sides[1], &matrix.columns) || matrix.rows < 0 ||
      matrix.columns < 0) {
    return absl::InvalidArgumentError("its shape is malformed");
  }
  return absl::OkStatus();
}

// Position of the data; sets `header` to the dict before it.
absl::StatusOr<size_t> FindData(absl::string_view file,
                                absl::string_view& header) {
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
  header = file.substr(start, length);
  return start + length;
}

absl::StatusOr<Matrix> Parse(std::string file, bool u2_is_bf16) {
  absl::string_view header;
  ASSIGN_OR_RETURN(const size_t data, FindData(file, header));
  Matrix matrix;
  ASSIGN_OR_RETURN(matrix.type, ParseType(header, u2_is_bf16));
  RETURN_IF_ERROR(ParseShape(header, matrix));
  ASSIGN_OR_RETURN(const absl::string_view order,
                   Value(header, "fortran_order"));
  if (absl::StartsWith(order, "True")) {
    matrix.order = v1::ORDER_COLUMN_MAJOR;
  } else if (!absl::StartsWith(order, "False")) {
    return absl::InvalidArgumentError("its fortran_order is malformed");
  }
  const int64_t size = file.size() - data;
  const int64_t item = ElementBytes(matrix.type);
  const bool overflows =
      matrix.columns != 0 &&
      matrix.rows > std::numeric_limits<int64_t>::max() / item / matrix.columns;
  if (overflows || matrix.rows * matrix.columns * item != size) {
    return absl::InvalidArgumentError(
        absl::StrFormat("it holds %d bytes of data, which are no %d x %d "
                        "elements of %d bytes",
                        size, matrix.rows, matrix.columns, item));
  }
  matrix.bytes = std::move(file);
  matrix.bytes.erase(0, data);
  return matrix;
}

}  // namespace

int64_t ElementBytes(v1::DataType type) {
  return type == v1::DATA_TYPE_F32 ? 4 : 2;
}

absl::StatusOr<Matrix> ReadNpy(const std::string& path, bool u2_is_bf16) {
  ASSIGN_OR_RETURN(std::string file, ReadFile(path));
  absl::StatusOr<Matrix> matrix = Parse(std::move(file), u2_is_bf16);
  if (matrix.ok()) return matrix;
  return absl::Status(matrix.status().code(),
                      absl::StrCat(path == kStandard ? "standard input" : path,
                                   ": ", matrix.status().message()));
}

absl::Status WriteNpy(const std::string& path, const Matrix& matrix) {
  const char* const type = matrix.type == v1::DATA_TYPE_F32   ? "<f4"
                           : matrix.type == v1::DATA_TYPE_F16 ? "<f2"
                                                              : "<V2";
  std::string header = absl::StrFormat(
      "{'descr': '%s', 'fortran_order': %s, 'shape': (%d, %d), }", type,
      matrix.order == v1::ORDER_COLUMN_MAJOR ? "True" : "False", matrix.rows,
      matrix.columns);
  const size_t before = kMagicBytes + 4;
  const size_t unpadded = before + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  header.push_back('\n');
  const bool standard = path == kStandard;
  if (standard && isatty(STDOUT_FILENO) == 1) {
    return absl::FailedPreconditionError(
        "a matrix is not written to a terminal; give a file or a pipe");
  }
  std::ofstream opened;
  if (!standard) opened.open(path, std::ios::binary | std::ios::trunc);
  std::ostream& file = standard ? std::cout : opened;
  file.write(kMagic, kMagicBytes);
  const char version_and_length[] = {1, 0,
                                     static_cast<char>(header.size() & 0xff),
                                     static_cast<char>(header.size() >> 8)};
  file.write(version_and_length, 4);
  file.write(header.data(), header.size());
  file.write(matrix.bytes.data(), matrix.bytes.size());
  file.flush();
  if (file) return absl::OkStatus();
  return absl::ErrnoToStatus(
      errno, absl::StrCat("write ", standard ? "standard output" : path));
}

}  // namespace gemmd::gemmctl
