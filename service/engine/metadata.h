// Metadata of sparse operands, looked at before a device has them: a tensor
// core does not, and computes something else. Pure functions.
#ifndef GEMMD_SERVICE_ENGINE_METADATA_H_
#define GEMMD_SERVICE_ENGINE_METADATA_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "jit/problem/layout.h"
#include "service/device/device.h"
#include "service/engine/product.h"

namespace gemmd::engine {

// INVALID_ARGUMENT that names the first place whose metadata are not legal, and
// the rule. `from` holds `lines`, or a part of one, of a matrix of `layout`,
// which the caller calls `name`. OK for what is not sparse.
absl::Status CheckMetadata(absl::string_view name,
                           const jit::MatrixLayout& layout,
                           const device::HostMatrix& from,
                           device::LineRange lines);

// The same for the bytes of `input`, of a matrix of `layout`.
absl::Status CheckMetadata(absl::string_view name,
                           const jit::MatrixLayout& layout, const Input& input);

// The same for those operands of `product` that are bytes.
absl::Status CheckMetadata(const Product& product);

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_METADATA_H_
