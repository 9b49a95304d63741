#include "service/engine/placement.h"

#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "jit/base/status.h"
#include "service/engine/cost.h"

namespace gemmd::engine {
namespace {

// The well device of greatest `worth`; the first of equals. UNAVAILABLE with
// the reason of the first one when all have failed.
template <typename Worth>
absl::StatusOr<int> Best(const ServedDevices& devices, Worth worth) {
  std::optional<int> best;
  for (int i = 0; i < static_cast<int>(devices.size()); ++i) {
    if (devices[i]->health.failed()) continue;
    if (!best || worth(i) > worth(*best)) best = i;
  }
  if (!best) return devices[0]->health.Check();
  return *best;
}

}  // namespace

absl::StatusOr<int> DeviceNamed(const ServedDevices& devices,
                                absl::string_view name) {
  for (int i = 0; i < static_cast<int>(devices.size()); ++i) {
    if (devices[i]->device->description().name != name) continue;
    RETURN_IF_ERROR(devices[i]->health.Check());
    return i;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "device is unknown; this daemon has: ",
      absl::StrJoin(devices, ", ", [](std::string* out, const auto& served) {
        out->append(served->device->description().name);
      })));
}

absl::StatusOr<int> LeastLoaded(const ServedDevices& devices) {
  return Best(devices, [&](int i) { return -devices[i]->products->load(); });
}

absl::StatusOr<int> NearestTo(
    const ServedDevices& devices, const TensorStore& store,
    absl::Span<const std::shared_ptr<Tensor>> tensors) {
  // First whether there is room for copies, then minus the load, then whether
  // it is the home of the first.
  using Worth = std::tuple<bool, int64_t, bool>;
  return Best(devices, [&](int i) -> Worth {
    int64_t missing = 0;
    for (const auto& tensor : tensors) {
      if (tensor->identity().device == i) continue;
      if (tensor->forms(i).MayHave(jit::Form::kStored, tensor->version())) {
        continue;
      }
      missing += tensor->layout().device_bytes();
    }
    const bool has_room = missing == 0 || missing <= store.free_bytes(i);
    return {has_room, -devices[i]->products->load() - PeerCopyCost(missing),
            tensors[0]->identity().device == i};
  });
}

absl::StatusOr<Reservation> ReserveTensor(const ServedDevices& devices,
                                          TensorStore& tensors, int64_t bytes,
                                          std::optional<int> device,
                                          const std::string& identity) {
  if (!device) {
    ASSIGN_OR_RETURN(device, Best(devices, [&](int i) {
                       return tensors.free_bytes(i, identity);
                     }));
  }
  RETURN_IF_ERROR(devices[*device]->health.Check());
  ASSIGN_OR_RETURN(QuotaHold quota, tensors.Reserve(*device, bytes, identity));
  return Reservation{*device, std::move(quota)};
}

}  // namespace gemmd::engine
