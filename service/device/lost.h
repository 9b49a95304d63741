// How a device says that it is lost: no work on it will succeed any more.
#ifndef GEMMD_SERVICE_DEVICE_LOST_H_
#define GEMMD_SERVICE_DEVICE_LOST_H_

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace gemmd::device {

inline constexpr absl::string_view kLostPayload = "gemmd/device_lost";

// UNAVAILABLE, so that clients move to another daemon or device.
inline absl::Status LostError(absl::string_view message) {
  absl::Status status = absl::UnavailableError(message);
  status.SetPayload(kLostPayload, absl::Cord());
  return status;
}

inline bool IsLost(const absl::Status& status) {
  return status.GetPayload(kLostPayload).has_value();
}

}  // namespace gemmd::device

#endif  // GEMMD_SERVICE_DEVICE_LOST_H_
