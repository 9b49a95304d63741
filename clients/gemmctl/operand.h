// Matrices named on the command line: a .npy file or "tensor:HANDLE".
#ifndef GEMMD_CLIENTS_GEMMCTL_OPERAND_H_
#define GEMMD_CLIENTS_GEMMCTL_OPERAND_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "clients/cpp/client.h"
#include "clients/gemmctl/npy.h"

namespace gemmd::gemmctl {

// Either a matrix whose packed bytes are held here, or a tensor.
struct NamedMatrix {
  Matrix matrix;  // Without bytes.
  std::string bytes;
  std::string tensor;

  // `repeated`: the one matrix serves a whole batch.
  client::Operand operand(bool repeated = false) const;
};

// The handle in "tensor:HANDLE"; nothing for the name of a file.
std::optional<std::string> TensorHandle(const std::string& name);
// The handle where nothing else can be meant, "tensor:" before it or not.
std::string HandleOf(const std::string& name);

// What the daemon says of a tensor.
Matrix Describe(const v1::TensorInfo& info);

// What is asked of an operand in a file.
struct Wanted {
  v1::DataType type = v1::DATA_TYPE_UNSPECIFIED;  // To be converted to.
  // What elements are that have no type of their own, where `type` is not set.
  v1::DataType named = v1::DATA_TYPE_UNSPECIFIED;
  // Of its lines; UNSPECIFIED: as they are.
  v1::Order order = v1::ORDER_UNSPECIFIED;
  // It is a file of sparse lines, of that order and type.
  v1::Order sparse = v1::ORDER_UNSPECIFIED;
  // Of lines of bits, instead; products are fastest where k runs along them.
  v1::Order order_of_bits = v1::ORDER_UNSPECIFIED;
};

// An operand as the user named it.
absl::StatusOr<NamedMatrix> Load(client::Client& client,
                                 const std::string& name, const Wanted& wanted);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_OPERAND_H_
