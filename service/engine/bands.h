// Products whose results go to memory of the host that clients share: large
// ones are cut into bands of the lines of D. What all of them read goes to the
// device first. Then each band goes there, is multiplied and returns while the
// others do, so that a product takes little longer than its operands travel.
//
// That is done where it changes nothing: each element is summed by one CTA, in
// the same order wherever its tile is, and no result lies where something is
// read.
#ifndef GEMMD_SERVICE_ENGINE_BANDS_H_
#define GEMMD_SERVICE_ENGINE_BANDS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "jit/plan/planner.h"
#include "service/device/device.h"
#include "service/engine/product.h"

namespace gemmd::engine {

// Some lines of D, as a product of its own.
struct Band {
  Product product;
  jit::Plan plan;  // With the kernel of the whole.
};

// Of `product`, which `plan` was made for, the first lines first. Empty where
// it stays whole.
std::vector<Band> CutIntoBands(const Product& product, const jit::Plan& plan,
                               const jit::DeviceProperties& device);

// As RunProduct. `bands` are those of `product`.
absl::StatusOr<Results> RunInBands(device::Lane& lane, const Prepared& prepared,
                                   const Product& product,
                                   absl::Span<const Band> bands,
                                   const RequestContext& context,
                                   Phases& phases);

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_BANDS_H_
