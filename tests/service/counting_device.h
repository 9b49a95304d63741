// The host device, counting kernels that are loaded and refusing some.
#ifndef GEMMD_TESTS_SERVICE_COUNTING_DEVICE_H_
#define GEMMD_TESTS_SERVICE_COUNTING_DEVICE_H_

#include <atomic>
#include <memory>
#include <set>
#include <string>

#include "service/device/device.h"
#include "service/host/host_device.h"

namespace gemmd::testing {

class CountingDevice : public device::Device {
 public:
  const device::Description& description() const override {
    return host_->description();
  }
  int64_t FreeBytes() const override { return host_->FreeBytes(); }
  absl::StatusOr<std::unique_ptr<device::Lane>> CreateLane() override {
    return host_->CreateLane();
  }
  absl::StatusOr<std::unique_ptr<device::Kernel>> Load(
      const jit::CompiledKernel& compiled, const jit::Plan&) override {
    if (refused_.contains(compiled.name)) {
      return absl::FailedPreconditionError("the device refuses it");
    }
    return std::make_unique<CountedKernel>(loaded_);
  }
  absl::Status Probe() override { return absl::OkStatus(); }

  void Refuse(const std::string& name) { refused_.insert(name); }
  int loaded() const { return loaded_; }

 private:
  class CountedKernel : public device::Kernel {
   public:
    explicit CountedKernel(std::atomic<int>& count) : count_(count) {
      ++count_;
    }
    ~CountedKernel() override { --count_; }

   private:
    std::atomic<int>& count_;
  };

  const std::unique_ptr<device::Device> host_ = host::CreateHostDevice({});
  std::set<std::string> refused_;
  std::atomic<int> loaded_ = 0;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_COUNTING_DEVICE_H_
