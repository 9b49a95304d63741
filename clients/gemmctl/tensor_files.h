// The files that hold a tensor's elements: one, or those of the parts of
// quantized weights.
#ifndef GEMMD_CLIENTS_GEMMCTL_TENSOR_FILES_H_
#define GEMMD_CLIENTS_GEMMCTL_TENSOR_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "clients/cli/command_line.h"
#include "clients/gemmctl/quantized.h"

namespace gemmd::gemmctl {

struct TensorFiles {
  PartFiles parts;  // Elements alone where nothing is quantized.
  v1::DataType type = v1::DATA_TYPE_UNSPECIFIED;
  // Of the lines of a sparse or a quantized matrix, if that is what they hold.
  v1::Order sparse = v1::ORDER_UNSPECIFIED;
  v1::Order quantized = v1::ORDER_UNSPECIFIED;
};

// Add options; `files` outlives the parse.
void DeclareScales(cli::Command& command, PartFiles& parts,
                   const std::string& help);
void DeclareToRead(cli::Command& command, TensorFiles& files);

// What no single option can tell.
absl::Status CheckTensorFiles(const TensorFiles& files);

// INVALID_ARGUMENT names the file that is wrong.
absl::StatusOr<Matrix> ReadTensor(const TensorFiles& files);
// `matrix` has the lines of a sparse or quantized tensor where it is one.
absl::Status WriteTensor(const PartFiles& files, Matrix matrix);

// INVALID_ARGUMENT where the shape, the type or the kind of one is not that of
// the other; of sparse and quantized ones the order, too.
absl::Status CheckAlike(const Matrix& matrix, const Matrix& tensor);

// "quantized by groups of 32 with zero points"; of others "not quantized".
std::string QuantizedText(const Matrix& matrix);

// "32", "64", "128" or "k", as the group of a quantization.
void GroupOption(cli::Command& command, int32_t& to, const std::string& help);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_TENSOR_FILES_H_
