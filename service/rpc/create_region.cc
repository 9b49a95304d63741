#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "jit/base/printable.h"
#include "service/engine/once.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/methods.h"

namespace gemmd::rpc {
namespace {

// Of a client's text, in an error.
constexpr size_t kMostShown = 64;

using Region = std::shared_ptr<const device::Region>;
using Mapped = std::shared_ptr<region::Store::Mapped>;

// The number of the GPU that `memory` is on.
absl::StatusOr<int> GpuOf(const engine::Engine& engine,
                          const v1::DeviceMemory& memory) {
  std::vector<std::string> names;
  for (int i = 0; i < engine.device_count(); ++i) {
    const device::Description& description = engine.device(i).description();
    if (description.uuid.empty()) continue;
    if (description.uuid == memory.device_uuid()) return i;
    names.push_back(
        absl::StrCat(description.uuid, " (", description.name, ")"));
  }
  if (names.empty()) {
    return absl::FailedPreconditionError(
        "device_memory is given; this daemon has no GPU: allowed is memory of "
        "the host");
  }
  const absl::string_view asked(memory.device_uuid());
  return absl::FailedPreconditionError(
      absl::StrCat("device_memory.device_uuid is ",
                   jit::Printable(asked.substr(0, kMostShown)),
                   "; this daemon has ", absl::StrJoin(names, ", ")));
}

// On a thread of its own: a client that writes to its memfd from a page that
// never comes keeps it locked, and who waits for the lock, in the kernel. The
// call ends without that thread when nobody waits for it any more.
Async<absl::StatusOr<Mapped>> Map(Runtime& runtime, Call& call,
                                  std::string handle, GivenFd memfd) {
  EngineAnswer<Mapped> answer(call.loop());
  const auto once = std::make_shared<engine::Once<Mapped>>(answer.Done());
  const absl::Status started = runtime.region_threads.Run(
      call.request_context().identity,
      [once, regions = runtime.regions, handle, memfd = std::move(memfd)] {
        once->Answer(regions->Map(handle, memfd.get()));
      });
  if (!started.ok()) once->Answer(started);
  call.WhenGivenUp([once] {
    once->Answer(absl::CancelledError("the region was not made in time"));
  });
  absl::StatusOr<Mapped> mapped = co_await answer;
  call.WhenGivenUp(nullptr);
  if (!mapped.ok()) runtime.regions->Withdraw(handle);
  co_return mapped;
}

}  // namespace

Async<absl::StatusOr<v1::RegionInfo>> CreateRegion(
    Runtime& runtime, Call& call, const v1::CreateRegionRequest& request) {
  const engine::RequestContext& context = call.request_context();
  region::Owner owner = {.identity = context.identity,
                         .exclusive = context.is_principal};
  // What one device pins, all may copy.
  int number = 0;
  if (request.has_device_memory()) {
    CO_ASSIGN_OR_RETURN(number, GpuOf(runtime.engine, request.device_memory()));
  }
  device::Device& device = runtime.engine.device(number);
  Mapped mapped;  // Null: memory of a device.
  if (!request.has_device_memory()) {
    CO_ASSIGN_OR_RETURN(GivenFd memfd,
                        runtime.regions->Take(request.handle(), owner));
    auto map = Map(runtime, call, request.handle(), std::move(memfd));
    CO_ASSIGN_OR_RETURN(mapped, co_await map);
  }
  auto create = CallEngine<Region>(call.loop(), [&](engine::Done<Region> done) {
    runtime.engine.InBackground<Region>(
        context.identity,
        [&regions = *runtime.regions, &device, number, request,
         owner = std::move(owner), mapped = std::move(mapped)]() mutable {
          if (mapped != nullptr) {
            return regions.Create(request.handle(), std::move(mapped), device);
          }
          const v1::DeviceMemory& memory = request.device_memory();
          return regions.Create(
              request.handle(), std::move(owner),
              region::DeviceMemory{.device = device,
                                   .number = number,
                                   .bytes = memory.bytes(),
                                   .ipc_handle = memory.ipc_handle()});
        },
        std::move(done));
  });
  const absl::StatusOr<Region> region = co_await create;
  if (!region.ok()) co_return region.status();
  v1::RegionInfo info;
  info.set_handle(request.handle());
  info.set_bytes(static_cast<int64_t>((*region)->bytes().size()));
  info.set_pinned((*region)->pinned());
  if (device::IsOnDevice(region->get())) {
    info.set_device(device.description().name);
  }
  co_return info;
}

}  // namespace gemmd::rpc
