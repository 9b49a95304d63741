#include "clients/gemmctl/tensor_files.h"

#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "clients/gemmctl/command.h"
#include "clients/gemmctl/convert.h"
#include "clients/gemmctl/sparse.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {

void DeclareScales(cli::Command& command, PartFiles& parts,
                   const std::string& help) {
  FileOption(command, "--scales FILE.npy", parts.scales, help);
  FileOption(command, "--zero-points FILE.npy", parts.zeros,
             "Of s4 and u4, likewise, where there are any.");
}

void DeclareToRead(cli::Command& command, TensorFiles& files) {
  command.Text("FILE.npy", files.parts.elements,
               "The elements; - is standard input.");
  TypeOption(
      command, "--dtype TYPE", files.type,
      absl::StrCat(kConverts,
                   " Names the type of a V1, u1 or u2 file's bits; s4 or u4: "
                   "an i1 or u1 file's elements fit four."));
  SideOption(command, "--sparse SIDE", files.sparse,
             "The file is of gemmctl compress, for an a or a b, of --dtype.");
  SideOption(command, "--quantized SIDE", files.quantized,
             "The elements are those of weights with --scales, for an a or a "
             "b.");
  DeclareScales(command, files.parts,
                "f4 or f2, with groups of 32, 64, 128 or all where elements "
                "have k.");
}

absl::Status CheckTensorFiles(const TensorFiles& files) {
  const bool quantized = files.quantized != v1::ORDER_UNSPECIFIED;
  if (quantized && files.sparse != v1::ORDER_UNSPECIFIED) {
    return absl::InvalidArgumentError(
        "--sparse and --quantized do not go together; allowed: one of them");
  }
  if (quantized && files.parts.scales.empty()) {
    return absl::InvalidArgumentError("--quantized needs --scales FILE");
  }
  if (!quantized &&
      (!files.parts.scales.empty() || !files.parts.zeros.empty())) {
    return absl::InvalidArgumentError(
        "--scales and --zero-points need --quantized SIDE");
  }
  return absl::OkStatus();
}

absl::StatusOr<Matrix> ReadTensor(const TensorFiles& files) {
  if (files.quantized != v1::ORDER_UNSPECIFIED) {
    ASSIGN_OR_RETURN(Parts parts, ReadParts(files.parts, files.type));
    absl::StatusOr<Matrix> joined = Join(std::move(parts), files.quantized);
    if (joined.ok()) return joined;
    return absl::Status(
        joined.status().code(),
        absl::StrCat(files.parts.elements, ": ", joined.status().message()));
  }
  const std::string& file = files.parts.elements;
  if (files.sparse != v1::ORDER_UNSPECIFIED) {
    return ReadLines(file, files.type, files.sparse);
  }
  ASSIGN_OR_RETURN(Matrix matrix, ReadNpy(file, files.type));
  if (files.type == v1::DATA_TYPE_UNSPECIFIED) return matrix;
  return Convert(std::move(matrix), files.type);
}

absl::Status WriteTensor(const PartFiles& files, Matrix matrix) {
  if (matrix.quantization) {
    if (files.scales.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the tensor is ", QuantizedText(matrix),
                       "; --scales FILE says where the scales go"));
    }
    return WriteParts(files, Split(std::move(matrix)));
  }
  if (!files.scales.empty() || !files.zeros.empty()) {
    return absl::InvalidArgumentError(
        "the tensor is not quantized: it has no scales and zero points");
  }
  if (matrix.sparse) matrix = ToLines(std::move(matrix));
  return WriteNpy(files.elements, matrix);
}

absl::Status CheckAlike(const Matrix& matrix, const Matrix& tensor) {
  const auto differ = [](const std::string& due, const std::string& given) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tensor is ", due, ", but what is uploaded ", given));
  };
  const auto sides = [](const Matrix& one) {
    return std::tuple(one.count(), one.rows, one.columns);
  };
  if (sides(matrix) != sides(tensor)) {
    return differ(tensor.shape(), matrix.shape());
  }
  const bool quantized = matrix.quantization || tensor.quantization;
  const bool has_lines = quantized || matrix.sparse || tensor.sparse;
  const auto text = [&](const Matrix& one) {
    return absl::StrCat(
        quantized ? QuantizedText(one) + " " : "", one.sparse ? "sparse " : "",
        Name(one.type),
        has_lines ? absl::StrCat(" ", Name(one.order), "-major") : "");
  };
  return text(matrix) == text(tensor) ? absl::OkStatus()
                                      : differ(text(tensor), text(matrix));
}

std::string QuantizedText(const Matrix& matrix) {
  if (!matrix.quantization) return "not quantized";
  const int32_t group = matrix.quantization->group();
  return absl::StrCat(
      "quantized by groups of ", group == 0 ? "all of k" : absl::StrCat(group),
      matrix.quantization->zero_points() ? " with zero points" : "");
}

void GroupOption(cli::Command& command, int32_t& to, const std::string& help) {
  command.Parsed(
      "--group N", "",
      [&to](const std::string& text) {
        to = 0;
        if (text == "k") return absl::OkStatus();
        if (absl::SimpleAtoi(text, &to) &&
            (to == 32 || to == 64 || to == 128)) {
          return absl::OkStatus();
        }
        return absl::InvalidArgumentError("32, 64, 128, k");
      },
      help + " Allowed: 32, 64, 128, k (all).");
}

}  // namespace gemmd::gemmctl
