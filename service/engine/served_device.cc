#include "service/engine/served_device.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "service/device/lost.h"

namespace gemmd::engine {
namespace {

std::string TitleOf(const device::Description& description) {
  return description.driver.empty()
             ? description.name
             : absl::StrCat(description.name, " ", description.product);
}

}  // namespace

ServedDevice::ServedDevice(std::unique_ptr<device::Device> owned,
                           LockTable& locks)
    : device(std::move(owned)),
      title(TitleOf(device->description())),
      health(device->description().name),
      locks(locks) {}

absl::StatusOr<std::unique_ptr<ServedDevice>> ServedDevice::Create(
    std::unique_ptr<device::Device> device, LockTable& locks,
    jit::KernelCache& cache, const jit::TemplateLibrary& templates,
    KernelTable::Options kernels, Executor::Options executor) {
  std::unique_ptr<ServedDevice> served(
      new ServedDevice(std::move(device), locks));
  kernels.health = &served->health;
  served->kernels =
      std::make_unique<KernelTable>(*served->device, cache, templates, kernels);
  ASSIGN_OR_RETURN(served->products,
                   Executor::Create(*served->device, served->health, executor));
  // Large transfers are cut into slices: all of them are short.
  executor.short_cycles = -1;
  ASSIGN_OR_RETURN(served->transfers,
                   Executor::Create(*served->device, served->health, executor));
  return served;
}

// Both stop before either is destroyed: the end of a task of one may let in a
// task of the other.
ServedDevice::~ServedDevice() { Stop(); }

void ServedDevice::Stop() {
  if (products != nullptr) products->Stop();
  if (transfers != nullptr) transfers->Stop();
}

absl::Status ServedDevice::Note(absl::Status status) {
  if (device::IsLost(status)) health.Fail(status.message());
  return status;
}

absl::Status ServedDevice::ProductFailed(absl::Status status) {
  const bool left =
      absl::IsCancelled(status) || absl::IsDeadlineExceeded(status);
  if (!left && !absl::IsInvalidArgument(status)) ++counts.failures;
  return Note(std::move(status));
}

}  // namespace gemmd::engine
