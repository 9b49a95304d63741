#include "tests/bench/derivation.h"

#include <utility>

#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "jit/plan/form.h"
#include "service/gpu/launch.h"

namespace gemmd::bench {
namespace {

absl::StatusOr<gpu::DeviceBuffer> Allocate(
    const gpu::CudaDevice& device, const std::shared_ptr<gpu::Stream>& stream,
    const Matrix& matrix, jit::Form form) {
  return device.memory().Allocate(
      stream, jit::FormLayout(matrix.layout, form).device_bytes());
}

}  // namespace

absl::StatusOr<Derivation> Derivation::Create(
    const gpu::CudaDevice& device, const std::shared_ptr<gpu::Stream>& stream,
    const std::vector<Choice>& choices, jit::KernelCache& cache,
    Operands& operands) {
  Derivation derivation(stream, operands);
  const jit::Plan& plan = choices.at(0).plan;
  for (const Choice& choice : choices) {
    if (choice.plan.a_form != plan.a_form ||
        choice.plan.b_form != plan.b_form) {
      return absl::InternalError("plans of one problem ask for other forms");
    }
  }
  // In the order of jit::MakePrepareInstances.
  auto instance = choices[0].preparations.begin();
  const auto load = [&](jit::Form form,
                        std::optional<Kernel>& kernel) -> absl::Status {
    if (form == jit::Form::kStored) return absl::OkStatus();
    ASSIGN_OR_RETURN(const jit::CacheResult compiled,
                     cache.Get(*instance++, absl::Now() + absl::Minutes(5)));
    ASSIGN_OR_RETURN(
        gpu::Module module,
        gpu::Module::Load(&device.context(), compiled.kernel->cubin,
                          jit::kKernelSymbol));
    kernel.emplace(Kernel{form, std::move(module)});
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(load(plan.a_form, derivation.a_));
  RETURN_IF_ERROR(load(plan.b_form, derivation.b_));
  for (int i = 0; i < operands.size(); ++i) {
    OperandCopy& copy = operands[i];
    if (derivation.a_) {
      ASSIGN_OR_RETURN(copy.a.derived,
                       Allocate(device, stream, copy.a, plan.a_form));
    }
    if (derivation.b_) {
      ASSIGN_OR_RETURN(copy.b.derived,
                       Allocate(device, stream, copy.b, plan.b_form));
    }
    RETURN_IF_ERROR(derivation.Enqueue(i));
  }
  RETURN_IF_ERROR(stream->Synchronize());
  return derivation;
}

absl::Status Derivation::Enqueue(int i) const {
  const OperandCopy& copy = operands_[i];
  if (a_) RETURN_IF_ERROR(Enqueue(*a_, copy.a));
  if (b_) RETURN_IF_ERROR(Enqueue(*b_, copy.b));
  return absl::OkStatus();
}

absl::Status Derivation::Enqueue(const Kernel& kernel,
                                 const Matrix& matrix) const {
  jit::PrepareLaunch launch = jit::PrepareLaunchOf(matrix.layout, kernel.form);
  launch.arguments.from = reinterpret_cast<const void*>(
      matrix.padded.get() + static_cast<CUdeviceptr>(launch.from_offset));
  launch.arguments.to = reinterpret_cast<void*>(matrix.derived.get());
  return gpu::EnqueuePrepare(launch, kernel.module.function(), *stream_);
}

}  // namespace gemmd::bench
