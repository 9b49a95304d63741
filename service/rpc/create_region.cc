#include <memory>

#include "service/rpc/engine_call.h"
#include "service/rpc/methods.h"

namespace gemmd::rpc {

Async<absl::StatusOr<v1::RegionInfo>> CreateRegion(
    Runtime& runtime, Call& call, const v1::CreateRegionRequest& request) {
  using Region = std::shared_ptr<const device::Region>;
  const engine::RequestContext& context = call.request_context();
  region::Owner owner = {.identity = context.identity,
                         .exclusive = context.is_principal};
  // What one device pins, all may copy.
  device::Device& device = runtime.engine.device(0);
  auto create = CallEngine<Region>(call.loop(), [&](engine::Done<Region> done) {
    runtime.engine.InBackground<Region>(
        [&regions = runtime.regions, &device, handle = request.handle(),
         owner = std::move(owner)]() mutable {
          return regions.Create(handle, std::move(owner), device);
        },
        std::move(done));
  });
  const absl::StatusOr<Region> region = co_await create;
  if (!region.ok()) co_return region.status();
  v1::RegionInfo info;
  info.set_handle(request.handle());
  info.set_bytes(static_cast<int64_t>((*region)->bytes().size()));
  info.set_pinned((*region)->pinned());
  co_return info;
}

}  // namespace gemmd::rpc
