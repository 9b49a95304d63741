// The host device, but with work that a test holds up, lets fail or counts,
// and under any name.
#ifndef GEMMD_TESTS_SERVICE_FAKE_DEVICE_H_
#define GEMMD_TESTS_SERVICE_FAKE_DEVICE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "service/device/device.h"
#include "service/host/host_device.h"
#include "tests/service/fake_timing.h"

namespace gemmd::testing {

// Called before each step of a lane, which fails with the result. Called from
// any thread; set before the device is used. Null: nothing happens.
struct Hooks {
  std::function<absl::Status()> allocate;
  std::function<absl::Status(int64_t bytes)> clear;
  std::function<absl::Status()> upload;
  std::function<absl::Status()> download;
  std::function<absl::Status()> copy_from_peer;
  std::function<absl::Status(const jit::Problem&, const jit::Plan&)> multiply;
  std::function<absl::Status(size_t members)> multiply_group;
  std::function<absl::Status()> synchronize;
  std::function<absl::Status()> load;
  // Microseconds that a product takes; null: the device times no kernels.
  PlanTime time;
  PlanPair same_bits;  // Null: all plans.
  device::TimingMemory timing_memory;
  bool derives_forms = false;  // Reads forms; whatever it makes is zeros.
  std::string bus_id;          // Of a GPU.
  device::PinnedMemory pinned_memory;
  // When the device ends: bytes of matrices that did not.
  std::function<void(int64_t bytes)> ended;
};

class FakeDevice final : public device::Device {
 public:
  // Shared, so that the test keeps it while the engine owns the device.
  FakeDevice(std::string name, std::shared_ptr<const Hooks> hooks,
             int64_t memory_bytes = 1 << 20)
      : hooks_(std::move(hooks)),
        host_(host::CreateHostDevice({.memory_bytes = memory_bytes})),
        description_(host_->description()) {
    description_.name = std::move(name);
    description_.may_hang = true;
    description_.multiplications_per_s = 0;
    description_.times_kernels = hooks_->time != nullptr;
    description_.derives_forms = hooks_->derives_forms;
    description_.bus_id = hooks_->bus_id;
  }

  ~FakeDevice() override {
    if (hooks_->ended) {
      hooks_->ended(description_.memory_bytes - host_->FreeBytes());
    }
  }

  const device::Description& description() const override {
    return description_;
  }
  int64_t FreeBytes() const override { return host_->FreeBytes(); }
  device::PinnedMemory pinned_memory() const override {
    return hooks_->pinned_memory;
  }
  absl::StatusOr<std::unique_ptr<device::Lane>> CreateLane() override {
    return std::make_unique<FakeLane>(host_->CreateLane().value(), hooks_);
  }
  absl::StatusOr<std::unique_ptr<device::Kernel>> Load(
      const jit::CompiledKernel& compiled, const jit::Plan& plan) override {
    if (absl::Status status = Call(hooks_->load); !status.ok()) return status;
    return host_->Load(compiled, plan);
  }
  absl::Status Probe() override { return absl::OkStatus(); }
  device::TimingMemory TimingMemoryOf(
      const jit::Problem&, absl::Span<const device::Contender>) const override {
    return hooks_->timing_memory;
  }
  absl::StatusOr<std::unique_ptr<device::Timing>> CreateTiming(
      const jit::Problem&, absl::Span<const device::Contender> contenders,
      int64_t) override {
    return std::make_unique<FakeTiming>(contenders, hooks_->time,
                                        hooks_->same_bits);
  }

 private:
  template <typename Hook, typename... Arguments>
  static absl::Status Call(const Hook& hook, const Arguments&... arguments) {
    return hook ? hook(arguments...) : absl::OkStatus();
  }

  class FakeLane final : public device::Lane {
   public:
    FakeLane(std::unique_ptr<device::Lane> host,
             std::shared_ptr<const Hooks> hooks)
        : host_(std::move(host)), hooks_(std::move(hooks)) {}

    absl::StatusOr<std::unique_ptr<device::Matrix>> Allocate(
        const jit::MatrixLayout& layout) override {
      if (absl::Status status = Call(hooks_->allocate); !status.ok()) {
        return status;
      }
      return host_->Allocate(layout);
    }
    absl::Status ClearLines(device::Matrix& matrix,
                            device::LineRange lines) override {
      absl::Status status =
          Call(hooks_->clear, lines.count * matrix.layout().pitch_bytes());
      return status.ok() ? host_->ClearLines(matrix, lines) : status;
    }
    absl::Status Upload(const device::HostMatrix& from, device::LineRange lines,
                        device::Matrix& to) override {
      absl::Status status = Call(hooks_->upload);
      return status.ok() ? host_->Upload(from, lines, to) : status;
    }
    absl::StatusOr<std::unique_ptr<device::HostBuffer>> Download(
        const device::Matrix& from, device::LineRange lines,
        int64_t pitch_bytes) override {
      if (absl::Status status = Call(hooks_->download); !status.ok()) {
        return status;
      }
      return host_->Download(from, lines, pitch_bytes);
    }
    absl::Status CopyFromPeer(const device::Matrix& from,
                              device::Matrix& to) override {
      RETURN_IF_ERROR(Call(hooks_->copy_from_peer));
      return host_->CopyFromPeer(from, to);
    }
    absl::Status Prepare(jit::Form, const device::Kernel&,
                         const device::Matrix&, device::Matrix& to) override {
      return host_->Clear(to);
    }
    absl::Status Multiply(const jit::Problem& problem, const jit::Plan& plan,
                          const device::Kernel& kernel,
                          const device::Operands& operands) override {
      RETURN_IF_ERROR(Call(hooks_->multiply, problem, plan));
      if (hooks_->derives_forms) return host_->Clear(*operands.d);
      return host_->Multiply(problem, plan, kernel, operands);
    }
    absl::Status MultiplyGroup(absl::Span<const device::GroupMember> members,
                               const device::Kernel& kernel) override {
      RETURN_IF_ERROR(Call(hooks_->multiply_group, members.size()));
      return Lane::MultiplyGroup(members, kernel);
    }
    absl::Status Synchronize() override {
      absl::Status status = Call(hooks_->synchronize);
      return status.ok() ? host_->Synchronize() : status;
    }

   private:
    const std::unique_ptr<device::Lane> host_;
    const std::shared_ptr<const Hooks> hooks_;
  };

  const std::shared_ptr<const Hooks> hooks_;
  const std::unique_ptr<device::Device> host_;
  device::Description description_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_FAKE_DEVICE_H_
