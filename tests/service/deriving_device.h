// The host device, but one that claims to read operands in the forms that
// plans ask for, as a GPU does. Notes what lanes derive and multiply, and
// computes nothing.
#ifndef GEMMD_TESTS_SERVICE_DERIVING_DEVICE_H_
#define GEMMD_TESTS_SERVICE_DERIVING_DEVICE_H_

#include <atomic>
#include <memory>
#include <utility>

#include "service/device/device.h"
#include "service/engine/forms.h"
#include "service/host/host_device.h"

namespace gemmd::testing {

// Loads what derives `form`.
inline void AddForm(engine::Forms& forms, device::Device& device,
                    const engine::DerivedForm& form) {
  jit::CompiledKernel compiled;
  compiled.cubin = "cubin";
  forms.Add(form, device.Load(compiled, {}).value());
}

class DerivingDevice final : public device::Device {
 public:
  explicit DerivingDevice(int64_t memory_bytes)
      : host_(host::CreateHostDevice({.memory_bytes = memory_bytes})),
        description_(host_->description()) {
    description_.derives_forms = true;
  }

  // Forms derived so far, on all lanes.
  int derivations() const { return derivations_; }
  // Layouts of A and B of the last product.
  const jit::MatrixLayout& a() const { return a_; }
  const jit::MatrixLayout& b() const { return b_; }
  // Waits for lanes so far.
  int synchronizations() const { return synchronizations_; }

  const device::Description& description() const override {
    return description_;
  }
  int64_t FreeBytes() const override { return host_->FreeBytes(); }
  absl::StatusOr<std::unique_ptr<device::Lane>> CreateLane() override {
    return std::make_unique<Lane>(*this, host_->CreateLane().value());
  }
  absl::StatusOr<std::unique_ptr<device::Kernel>> Load(
      const jit::CompiledKernel& compiled, const jit::Plan& plan) override {
    return host_->Load(compiled, plan);
  }
  absl::Status Probe() override { return absl::OkStatus(); }

 private:
  class Lane final : public device::Lane {
   public:
    Lane(DerivingDevice& device, std::unique_ptr<device::Lane> host)
        : device_(device), host_(std::move(host)) {}

    absl::StatusOr<std::unique_ptr<device::Matrix>> Allocate(
        const jit::MatrixLayout& layout) override {
      return host_->Allocate(layout);
    }
    absl::Status ClearLines(device::Matrix& matrix,
                            device::LineRange lines) override {
      return host_->ClearLines(matrix, lines);
    }
    absl::Status Upload(const device::HostMatrix& from, device::LineRange lines,
                        device::Matrix& to) override {
      return host_->Upload(from, lines, to);
    }
    absl::StatusOr<std::unique_ptr<device::HostBuffer>> Download(
        const device::Matrix& from, device::LineRange lines,
        int64_t pitch_bytes) override {
      return host_->Download(from, lines, pitch_bytes);
    }
    absl::Status Prepare(jit::Form, const device::Kernel&,
                         const device::Matrix&, device::Matrix& to) override {
      ++device_.derivations_;
      return host_->Clear(to);
    }
    absl::Status Multiply(const jit::Problem&, const jit::Plan&,
                          const device::Kernel&,
                          const device::Operands& operands) override {
      device_.a_ = operands.a->layout();
      device_.b_ = operands.b->layout();
      return host_->Clear(*operands.d);
    }
    absl::Status Synchronize() override {
      ++device_.synchronizations_;
      return host_->Synchronize();
    }

   private:
    DerivingDevice& device_;
    const std::unique_ptr<device::Lane> host_;
  };

  const std::unique_ptr<device::Device> host_;
  device::Description description_;
  std::atomic<int> derivations_ = 0;
  std::atomic<int> synchronizations_ = 0;
  jit::MatrixLayout a_, b_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_DERIVING_DEVICE_H_
