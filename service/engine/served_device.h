// A device with what belongs to it: kernels and queues; and the order in which
// tensors are used, which is one for all devices. Thread-safe.
#ifndef GEMMD_SERVICE_ENGINE_SERVED_DEVICE_H_
#define GEMMD_SERVICE_ENGINE_SERVED_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "jit/cache/kernel_cache.h"
#include "jit/source/template_library.h"
#include "service/device/device.h"
#include "service/engine/device_counts.h"
#include "service/engine/device_health.h"
#include "service/engine/executor.h"
#include "service/engine/kernel_table.h"
#include "service/engine/tensor_locks.h"

namespace gemmd::engine {

// Destroyed in reverse: executors use what is above them.
struct ServedDevice {
  // All references outlive it.
  static absl::StatusOr<std::unique_ptr<ServedDevice>> Create(
      std::unique_ptr<device::Device> device, LockTable& locks,
      jit::KernelCache& cache, const jit::TemplateLibrary& templates,
      KernelTable::Options kernels, Executor::Options executor);
  ~ServedDevice();

  // Finishes what runs; what waits gets UNAVAILABLE, as does what comes later.
  void Stop();

  // Takes notice of how work on the device ended; returns `status`.
  absl::Status Note(absl::Status status);

  // The same of a product, which is counted unless its client was the reason.
  absl::Status ProductFailed(absl::Status status);

  const std::unique_ptr<device::Device> device;
  const std::string title;  // "cuda:0 NVIDIA H100 80GB HBM3" or "host".
  DeviceHealth health;
  DeviceCounts counts;
  LockTable& locks;
  std::unique_ptr<KernelTable> kernels;
  // Products have lanes of their own: large transfers do not hold them up.
  std::unique_ptr<Executor> products;
  std::unique_ptr<Executor> transfers;

 private:
  ServedDevice(std::unique_ptr<device::Device> device, LockTable& locks);
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_SERVED_DEVICE_H_
