#include "service/engine/product.h"

#include <utility>

#include "absl/time/clock.h"
#include "jit/base/status.h"

namespace gemmd::engine {
namespace {

// Time since the last call, or since construction.
class Stopwatch {
 public:
  absl::Duration Lap() {
    const absl::Time now = absl::Now();
    return now - std::exchange(last_, now);
  }

 private:
  absl::Time last_ = absl::Now();
};

// An input on the device: a tensor's matrix, or one made for this product.
struct Resident {
  std::unique_ptr<device::Matrix> owned;
  const device::Matrix* matrix = nullptr;
};

absl::StatusOr<Resident> Bring(device::Lane& lane, const Input& input,
                               const jit::MatrixLayout& layout) {
  Resident resident;
  if (input.tensor != nullptr) {
    resident.matrix = &TensorLocks::matrix(*input.tensor);
    return resident;
  }
  ASSIGN_OR_RETURN(resident.owned, lane.Allocate(layout));
  RETURN_IF_ERROR(lane.Upload({input.pieces, input.pitch_bytes},
                              {0, layout.lines()}, *resident.owned));
  resident.matrix = resident.owned.get();
  return resident;
}

}  // namespace

absl::StatusOr<std::unique_ptr<device::HostBuffer>> RunProduct(
    device::Lane& lane, const Prepared& prepared, const Product& product,
    const RequestContext& context, Phases& phases) {
  const jit::Problem& problem = product.problem;
  ASSIGN_OR_RETURN(const TensorLocks locks,
                   TensorLocks::Acquire(
                       {product.a.tensor, product.b.tensor, product.c.tensor},
                       product.d, context.deadline));

  Stopwatch stopwatch;
  Resident a, b, c;
  if (problem.reads_ab()) {
    ASSIGN_OR_RETURN(a, Bring(lane, product.a, problem.a()));
    ASSIGN_OR_RETURN(b, Bring(lane, product.b, problem.b()));
  }
  if (problem.reads_c()) {
    ASSIGN_OR_RETURN(c, Bring(lane, product.c, problem.c()));
  }
  std::unique_ptr<device::Matrix> owned_d;
  device::Matrix* d;
  if (product.d != nullptr) {
    d = &TensorLocks::matrix(*product.d);
  } else {
    ASSIGN_OR_RETURN(owned_d, lane.Allocate(problem.d()));
    d = owned_d.get();
  }
  phases.upload = stopwatch.Lap();

  RETURN_IF_ERROR(context.Check("launch"));
  RETURN_IF_ERROR(lane.Multiply(problem, prepared.plan,
                                *prepared.kernel->kernel,
                                {a.matrix, b.matrix, c.matrix, d}));
  RETURN_IF_ERROR(lane.Synchronize());
  phases.execute = stopwatch.Lap();
  if (product.d != nullptr) return nullptr;

  ASSIGN_OR_RETURN(auto result, lane.Download(*d, {0, problem.d().lines()},
                                              product.d_pitch_bytes));
  phases.download = stopwatch.Lap();
  return result;
}

}  // namespace gemmd::engine
