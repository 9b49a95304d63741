#include "service/rpc/convert.h"

namespace gemmd::rpc {
namespace {

v1::SumArithmetic ToWire(device::SumArithmetic arithmetic) {
  switch (arithmetic) {
    case device::SumArithmetic::kNone:
      return v1::SUM_ARITHMETIC_UNSPECIFIED;
    case device::SumArithmetic::kHopper:
      return v1::SUM_ARITHMETIC_HOPPER;
    case device::SumArithmetic::kDouble:
      return v1::SUM_ARITHMETIC_DOUBLE;
  }
  return v1::SUM_ARITHMETIC_UNSPECIFIED;
}

v1::CubinSource ToWire(engine::KernelSource source) {
  switch (source) {
    case engine::KernelSource::kNone:
      return v1::CUBIN_SOURCE_UNSPECIFIED;
    case engine::KernelSource::kLoaded:
      return v1::CUBIN_SOURCE_LOADED;
    case engine::KernelSource::kMemory:
      return v1::CUBIN_SOURCE_MEMORY;
    case engine::KernelSource::kDisk:
      return v1::CUBIN_SOURCE_DISK;
    case engine::KernelSource::kCompiled:
      return v1::CUBIN_SOURCE_COMPILED;
  }
  return v1::CUBIN_SOURCE_UNSPECIFIED;
}

}  // namespace

v1::Phases ToWire(const engine::Phases& phases) {
  v1::Phases out;
  out.set_queue_us(absl::ToInt64Microseconds(phases.queue));
  out.set_plan_us(absl::ToInt64Microseconds(phases.plan));
  out.set_compile_us(absl::ToInt64Microseconds(phases.compile));
  out.set_upload_us(absl::ToInt64Microseconds(phases.upload));
  out.set_execute_us(absl::ToInt64Microseconds(phases.execute));
  out.set_download_us(absl::ToInt64Microseconds(phases.download));
  return out;
}

v1::Paths ToWire(const engine::Paths& paths) {
  // They have the numbers of the wire's.
  static_assert(static_cast<int>(engine::Path::kDeviceIpc) ==
                v1::PATH_DEVICE_IPC);
  const auto path = [](engine::Path path) {
    return static_cast<v1::Path>(path);
  };
  v1::Paths wire;
  wire.set_a(path(paths.a));
  wire.set_b(path(paths.b));
  wire.set_c(path(paths.c));
  wire.set_d(path(paths.d));
  wire.set_auxiliary(path(paths.auxiliary));
  wire.set_copies(paths.copies);
  return wire;
}

v1::Execution ToWire(const engine::Execution& execution) {
  v1::Execution wire;
  wire.set_device(execution.device);
  wire.set_kernel(execution.kernel);
  wire.set_cubin_key(execution.cubin_key);
  wire.set_cubin_source(ToWire(execution.source));
  wire.set_arithmetic(ToWire(execution.arithmetic));
  wire.set_splits(execution.splits);
  *wire.mutable_phases() = ToWire(execution.phases);
  *wire.mutable_paths() = ToWire(execution.paths);
  return wire;
}

}  // namespace gemmd::rpc
