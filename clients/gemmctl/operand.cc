#include "clients/gemmctl/operand.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "clients/gemmctl/convert.h"
#include "clients/gemmctl/sparse.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {

std::optional<std::string> TensorHandle(const std::string& name) {
  absl::string_view handle = name;
  if (!absl::ConsumePrefix(&handle, "tensor:")) return std::nullopt;
  return std::string(handle);
}

std::string HandleOf(const std::string& name) {
  return TensorHandle(name).value_or(name);
}

Matrix Describe(const v1::TensorInfo& info) {
  Matrix matrix = {info.dtype(), info.order(), info.rows(), info.columns()};
  if (info.count() > 1) matrix.batch = {info.count()};
  matrix.sparse = info.sparsity() != v1::SPARSITY_UNSPECIFIED;
  if (info.has_quantization()) matrix.quantization = info.quantization();
  return matrix;
}

client::Operand NamedMatrix::operand(bool repeated) const {
  if (!tensor.empty()) return client::Operand::Tensor(tensor);
  client::Operand operand = client::Operand::Bytes(bytes);
  if (repeated) operand.batch_stride = 0;
  return operand;
}

absl::StatusOr<NamedMatrix> Load(client::Client& client,
                                 const std::string& name,
                                 const Wanted& wanted) {
  NamedMatrix named;
  if (const auto handle = TensorHandle(name)) {
    ASSIGN_OR_RETURN(const v1::TensorInfo info, client.DescribeTensor(*handle));
    named.tensor = *handle;
    named.matrix = Describe(info);
    return named;
  }
  if (wanted.sparse != v1::ORDER_UNSPECIFIED) {
    ASSIGN_OR_RETURN(named.matrix, ReadLines(name, wanted.type, wanted.sparse));
    named.bytes = std::exchange(named.matrix.bytes, {});
    return named;
  }
  const bool converts = wanted.type != v1::DATA_TYPE_UNSPECIFIED;
  auto read = ReadNpy(name, converts ? wanted.type : wanted.named);
  if (absl::IsNotFound(read.status())) {
    return absl::NotFoundError(absl::StrCat(
        read.status().message(), "; a tensor is named tensor:HANDLE"));
  }
  ASSIGN_OR_RETURN(Matrix matrix, std::move(read));
  if (converts) {
    absl::StatusOr<Matrix> converted = Convert(std::move(matrix), wanted.type);
    if (!converted.ok()) {
      return absl::Status(
          converted.status().code(),
          absl::StrCat(name, ": ", converted.status().message()));
    }
    matrix = *std::move(converted);
  }
  const v1::Order order =
      matrix.type == v1::DATA_TYPE_B1 ? wanted.order_of_bits : wanted.order;
  if (order != v1::ORDER_UNSPECIFIED) {
    matrix = Reorder(std::move(matrix), order);
  }
  std::string bytes = std::move(matrix.bytes);
  matrix.bytes.clear();
  named.matrix = matrix;
  matrix.bytes = std::move(bytes);
  named.bytes = Pack(std::move(matrix));
  return named;
}

}  // namespace gemmd::gemmctl
