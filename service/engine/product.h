// One product as the engine sees it, and its steps on a lane.
#ifndef GEMMD_SERVICE_ENGINE_PRODUCT_H_
#define GEMMD_SERVICE_ENGINE_PRODUCT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "jit/problem/problem.h"
#include "service/device/device.h"
#include "service/engine/kernel_table.h"
#include "service/engine/request_context.h"
#include "service/engine/tensor_locks.h"

namespace gemmd::engine {

// Where an input comes from: a tensor, or bytes.
// Both empty when the problem does not read it.
struct Input {
  std::shared_ptr<Tensor> tensor;
  std::vector<absl::Span<const char>> pieces;
  int64_t pitch_bytes = 0;
  int64_t matrix_bytes = 0;  // From one matrix of a batch to the next.
};

// Valid: lengths fit the problem, tensors have its layouts and one device.
struct Product {
  jit::Problem problem;
  Input a;
  Input b;
  Input c;
  std::shared_ptr<Tensor> d;  // Null: D is returned,
  int64_t d_pitch_bytes = 0;  // with its lines this far apart.
  // What the problem's epilogue takes and gives beside C and D.
  Input bias;
  Input a_scale;
  Input b_scale;
  Input d_scale;
  std::shared_ptr<Tensor> auxiliary;  // Null: it is returned, as d would be,
  int64_t auxiliary_pitch_bytes = 0;
  // Owns the bytes of the inputs; null: whoever asks keeps them until the
  // answer.
  std::shared_ptr<const void> bytes;
};

struct Phases {
  absl::Duration queue;
  absl::Duration plan;
  absl::Duration compile;
  absl::Duration upload;
  absl::Duration execute;
  absl::Duration download;
};

// What a product returns; null where it went to a tensor or is not asked for.
struct Results {
  std::unique_ptr<device::HostBuffer> d;
  std::unique_ptr<device::HostBuffer> auxiliary;
  std::optional<float> amax;
};

// Uploads, multiplies, downloads. The problem writes(), and the tensors are
// held.
absl::StatusOr<Results> RunProduct(device::Lane& lane, const Prepared& prepared,
                                   const Product& product,
                                   const RequestContext& context,
                                   Phases& phases);

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_PRODUCT_H_
