// One product as the engine sees it, and its steps on a lane.
#ifndef GEMMD_SERVICE_ENGINE_PRODUCT_H_
#define GEMMD_SERVICE_ENGINE_PRODUCT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "jit/problem/problem.h"
#include "service/device/device.h"
#include "service/engine/kernel_table.h"
#include "service/engine/request_context.h"
#include "service/engine/tensor.h"

namespace gemmd::engine {

// Where an input comes from: a tensor, or bytes that outlive the product.
// Both empty when the problem does not read it.
struct Input {
  std::shared_ptr<Tensor> tensor;
  std::vector<absl::Span<const char>> pieces;
  int64_t pitch_bytes = 0;
};

// Valid: lengths fit the problem, tensors have its layouts and one device.
struct Product {
  jit::Problem problem;
  Input a;
  Input b;
  Input c;
  std::shared_ptr<Tensor> d;  // Null: D is returned,
  int64_t d_pitch_bytes = 0;  // with its lines this far apart.
};

struct Phases {
  absl::Duration queue;
  absl::Duration plan;
  absl::Duration compile;
  absl::Duration upload;
  absl::Duration execute;
  absl::Duration download;
};

// Uploads, multiplies, downloads. Returns D, or null when it went to a tensor.
// The problem writes().
absl::StatusOr<std::unique_ptr<device::HostBuffer>> RunProduct(
    device::Lane& lane, const Prepared& prepared, const Product& product,
    const RequestContext& context, Phases& phases);

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_PRODUCT_H_
