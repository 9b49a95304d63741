// Work of the daemon's own on a lane of products: a slice of it waits for its
// turn as a product does, and should be as short. Mostly no product runs beside
// it, so that it can measure.
#ifndef GEMMD_SERVICE_ENGINE_LANE_SLICE_H_
#define GEMMD_SERVICE_ENGINE_LANE_SLICE_H_

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "service/engine/request_context.h"
#include "service/engine/served_device.h"

namespace gemmd::engine {

// Runs `work` on a lane in turn, and waits for it; its status, or why it was
// not run. `work` owns what it uses: where the device hangs, this returns and
// `work` may not.
absl::Status RunOnLane(ServedDevice& served, RequestContext context,
                       absl::AnyInvocable<absl::Status()> work);

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_LANE_SLICE_H_
