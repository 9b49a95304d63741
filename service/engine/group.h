// Independent products as the engine sees them, and how they run on a lane:
// those that go together by one launch, and one wait at the end.
#ifndef GEMMD_SERVICE_ENGINE_GROUP_H_
#define GEMMD_SERVICE_ENGINE_GROUP_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/engine/preparer.h"
#include "service/engine/product.h"
#include "service/engine/request_context.h"

namespace gemmd::engine {

// An error of a product, which its text names.
absl::Status OfGroup(size_t i, const absl::Status& error);

// Products of one launch, by their number, and its kernel.
struct GroupLaunch {
  std::vector<size_t> products;
  Preparation preparation;
  // False where each is to be launched by itself.
  bool together() const { return products.size() > 1; }
};

// Those that write something, by what may go together.
std::vector<GroupLaunch> GroupLaunches(absl::Span<const Product> products);

// Whether they may run in any order and at the same time: none writes a tensor
// that another one uses. And whether together they are few enough work that
// others may wait until all have run.
bool AreIndependent(absl::Span<const Product> products);
bool AreShort(absl::Span<const Product> products);

// Uploads, multiplies, downloads: results in the order of the products.
// `launches` are of all that write, and prepared. The tensors are held. The
// lane has nothing left to do afterwards, whatever the status.
absl::StatusOr<std::vector<Results>> RunGroup(
    device::Lane& lane, const jit::DeviceProperties& device,
    absl::Span<const GroupLaunch> launches, absl::Span<const Product> products,
    const RequestContext& context, Phases& phases);

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_GROUP_H_
