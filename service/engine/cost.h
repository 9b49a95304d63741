// What work is charged with, in cycles that it is predicted to keep a device
// busy: the common measure of shares and of load.
#ifndef GEMMD_SERVICE_ENGINE_COST_H_
#define GEMMD_SERVICE_ENGINE_COST_H_

#include <cstdint>

#include "absl/time/time.h"
#include "jit/plan/plan.h"
#include "service/device/device.h"
#include "service/engine/product.h"

namespace gemmd::engine {

struct Sequence;

inline constexpr double kCyclesPerNs = 1.7;

// One core re-pitches an upload at 10 GB/s, a download runs at 55 GB/s.
inline int64_t UploadCost(int64_t bytes) { return bytes / 6; }
inline int64_t DownloadCost(int64_t bytes) { return bytes / 32; }
// From one GPU to another through the host: 37 GB/s. NVLink is ten times as
// fast.
inline int64_t PeerCopyCost(int64_t bytes) { return bytes / 22; }
// As a download: little on a GPU, more on the host.
inline int64_t ClearCost(int64_t bytes) { return bytes / 32; }

// Of a product that is predicted to take `product_cycles`.
int64_t ProductCost(double product_cycles, const Product& product);

// Of several products that run one behind the other, which are predicted to
// take so many in all.
int64_t SequenceCost(double product_cycles, int64_t uploaded_bytes,
                     int64_t returned_bytes);

// What one call has a device compute.
struct Work {
  double cycles = 0;           // Predicted, of a GPU.
  double multiplications = 0;  // As the host makes them.

  // How long it keeps the device from others,
  absl::Duration On(const device::Description& device) const;
  // and the same in cycles of a GPU, whatever the device is.
  double CyclesOn(const device::Description& device) const;
};

// Of a product that has such a plan.
double HostMultiplications(const jit::Problem& problem, const jit::Plan& plan);

// What has to be brought to the device, and what of its results is brought from
// it.
int64_t SizeOf(const Input& input);
int64_t ReturnedBytes(const Product& product);
int64_t ReturnedBytes(const Sequence& sequence);

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_COST_H_
