// Which device a request goes to. Devices that have failed get nothing.
#ifndef GEMMD_SERVICE_ENGINE_PLACEMENT_H_
#define GEMMD_SERVICE_ENGINE_PLACEMENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/engine/served_device.h"
#include "service/engine/tensor_store.h"

namespace gemmd::engine {

using ServedDevices = std::vector<std::unique_ptr<ServedDevice>>;

// INVALID_ARGUMENT with the names that there are; UNAVAILABLE when it failed.
absl::StatusOr<int> DeviceNamed(const ServedDevices& devices,
                                absl::string_view name);

// The device whose products, waiting and running, are predicted to end first.
// UNAVAILABLE when all have failed.
absl::StatusOr<int> LeastLoaded(const ServedDevices& devices);

// Where work runs that reads `tensors`, at least one, and is bound to no
// device: where what there is to do, and the copies of them that are not there,
// are predicted to end first. Of equals the one where the first is at home;
// without room for the copies none but such a one, if there is. UNAVAILABLE
// when all have failed.
absl::StatusOr<int> NearestTo(
    const ServedDevices& devices, const TensorStore& store,
    absl::Span<const std::shared_ptr<Tensor>> tensors);

struct Reservation {
  int device;
  QuotaHold quota;
};

// Room for a tensor of `bytes` that `identity` creates: on the device that is
// asked for, else on the one with the largest part of its quota left.
// RESOURCE_EXHAUSTED when it does not fit, UNAVAILABLE when the device, or all
// of them, have failed.
absl::StatusOr<Reservation> ReserveTensor(const ServedDevices& devices,
                                          TensorStore& tensors, int64_t bytes,
                                          std::optional<int> device,
                                          const std::string& identity);

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_PLACEMENT_H_
