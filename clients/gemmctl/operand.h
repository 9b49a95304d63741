// Matrices named on the command line: a .npy file or "tensor:HANDLE".
#ifndef GEMMD_CLIENTS_GEMMCTL_OPERAND_H_
#define GEMMD_CLIENTS_GEMMCTL_OPERAND_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "clients/cpp/client.h"
#include "clients/gemmctl/npy.h"

namespace gemmd::gemmctl {

// Either a matrix held here, or a tensor of which `matrix` has no bytes.
struct NamedMatrix {
  Matrix matrix;
  std::string tensor;

  client::Operand operand() const {
    return tensor.empty() ? client::Operand::Bytes(matrix.bytes)
                          : client::Operand::Tensor(tensor);
  }
};

// The handle in "tensor:HANDLE"; nothing for the name of a file.
std::optional<std::string> TensorHandle(const std::string& name);

// An operand as the user named it, converted to `type` when that is given.
absl::StatusOr<NamedMatrix> Load(client::Client& client,
                                 const std::string& name, v1::DataType type);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_OPERAND_H_
