#include "clients/gemmctl/operand.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "clients/gemmctl/convert.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {

std::optional<std::string> TensorHandle(const std::string& name) {
  absl::string_view handle = name;
  if (!absl::ConsumePrefix(&handle, "tensor:")) return std::nullopt;
  return std::string(handle);
}

absl::StatusOr<NamedMatrix> Load(client::Client& client,
                                 const std::string& name, v1::DataType type) {
  NamedMatrix named;
  if (const auto handle = TensorHandle(name)) {
    ASSIGN_OR_RETURN(const v1::TensorInfo info, client.DescribeTensor(*handle));
    named.tensor = *handle;
    named.matrix = {
        info.dtype(), info.order(), info.rows(), info.columns(), {}};
    return named;
  }
  ASSIGN_OR_RETURN(Matrix matrix, ReadNpy(name, type == v1::DATA_TYPE_BF16));
  if (type != v1::DATA_TYPE_UNSPECIFIED) {
    absl::StatusOr<Matrix> converted = Convert(std::move(matrix), type);
    if (!converted.ok()) {
      return absl::Status(
          converted.status().code(),
          absl::StrCat(name, ": ", converted.status().message()));
    }
    matrix = *std::move(converted);
  }
  named.matrix = std::move(matrix);
  return named;
}

}  // namespace gemmd::gemmctl
