#include "service/rpc/tensor_info.h"

#include "absl/strings/str_cat.h"
#include "service/rpc/convert.h"

namespace gemmd::rpc {

v1::TensorInfo ToWire(const engine::Tensor& tensor,
                      const engine::Engine& engine) {
  const engine::Tensor::Identity& identity = tensor.identity();
  const jit::MatrixLayout& layout = tensor.layout();
  v1::TensorInfo info;
  info.set_handle(identity.handle);
  info.set_dtype(ToWire(layout.type));
  info.set_rows(layout.rows);
  info.set_columns(layout.columns);
  info.set_count(layout.count);
  info.set_order(ToWire(layout.order));
  info.set_sparsity(SparsityOf(layout.sparse));
  if (layout.quantization.group != 0) {
    *info.mutable_quantization() = convert::ToWire(layout.quantization);
  }
  info.set_device(engine.device(identity.device).description().name);
  info.set_label(identity.label);
  info.set_device_bytes(layout.device_bytes());
  info.set_ttl_s(absl::ToInt64Seconds(identity.ttl));
  info.set_idle_s(absl::ToInt64Seconds(tensor.idle()));
  info.set_version(tensor.version());
  return info;
}

std::string LayoutText(const jit::MatrixLayout& layout) {
  const auto [group, zero_points] = layout.quantization;
  const std::string quantized =
      group == 0
          ? ""
          : absl::StrCat("quantized by ",
                         group == jit::kWholeLine ? "k" : absl::StrCat(group),
                         zero_points ? " with zero points " : " ");
  return absl::StrCat(
      layout.sparse ? "sparse " : "", quantized, jit::Name(layout.type), " ",
      layout.count == 1 ? "" : absl::StrCat(layout.count, " x "), layout.rows,
      " x ", layout.columns, " ", jit::Name(layout.order));
}

}  // namespace gemmd::rpc
