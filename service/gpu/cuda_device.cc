#include "service/gpu/cuda_device.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/source/instance.h"
#include "service/device/lost.h"
#include "service/gpu/cuda_lane.h"
#include "service/gpu/imported_memory.h"
#include "service/gpu/status.h"

namespace gemmd::gpu {
namespace {

constexpr int64_t kProbeBytes = 256;

struct ComputeCapability {
  int major = 0;
  int minor = 0;
};

absl::StatusOr<ComputeCapability> CapabilityOf(const DriverTable& driver,
                                               int ordinal) {
  CUdevice device;
  RETURN_IF_CUDA_ERROR(driver, cuDeviceGet(&device, ordinal));
  ComputeCapability capability;
  RETURN_IF_CUDA_ERROR(
      driver, cuDeviceGetAttribute(&capability.major,
                                   CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                   device));
  RETURN_IF_CUDA_ERROR(
      driver, cuDeviceGetAttribute(&capability.minor,
                                   CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                   device));
  return capability;
}

absl::StatusOr<device::Description> Describe(const Context& context,
                                             int ordinal) {
  const DriverTable& driver = context.driver();
  device::Description description;
  description.name = absl::StrCat("cuda:", ordinal);
  description.derives_forms = true;
  description.times_kernels = true;
  char product[256] = {};
  RETURN_IF_CUDA_ERROR(
      driver, cuDeviceGetName(product, sizeof(product) - 1, context.device()));
  description.product = product;
  int version = 0;  // 1000 * major + 10 * minor.
  RETURN_IF_CUDA_ERROR(driver, cuDriverGetVersion(&version));
  description.driver = absl::StrCat(version / 1000, ".", version % 1000 / 10);
  char bus_id[32] = {};
  RETURN_IF_CUDA_ERROR(
      driver, cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), context.device()));
  description.bus_id = bus_id;
  size_t memory_bytes = 0;
  RETURN_IF_CUDA_ERROR(driver,
                       cuDeviceTotalMem(&memory_bytes, context.device()));
  description.memory_bytes = static_cast<int64_t>(memory_bytes);
  RETURN_IF_ERROR(DescribeImports(context, description));
  ASSIGN_OR_RETURN(description.properties.multiprocessors,
                   context.Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  ASSIGN_OR_RETURN(
      description.properties.shared_memory_bytes,
      context.Attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
  return description;
}

// Null when it is another.
absl::StatusOr<std::unique_ptr<CudaDevice>> OpenIfHopper(
    const std::shared_ptr<const DriverTable>& driver, int ordinal,
    const Options& options) {
  ASSIGN_OR_RETURN(const ComputeCapability capability,
                   CapabilityOf(*driver, ordinal));
  if (capability.major != 9 || capability.minor != 0) return nullptr;
  return CudaDevice::Open(driver, ordinal, options);
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<device::Device>>> OpenCudaDevices(
    const Options& options) {
  ASSIGN_OR_RETURN(std::shared_ptr<const DriverTable> driver,
                   LoadDriver(options.driver_library));
  return OpenCudaDevices(std::move(driver), options);
}

absl::StatusOr<std::vector<std::unique_ptr<device::Device>>> OpenCudaDevices(
    std::shared_ptr<const DriverTable> driver, const Options& options) {
  int count = 0;
  RETURN_IF_CUDA_ERROR(*driver, cuDeviceGetCount(&count));
  std::vector<std::unique_ptr<CudaDevice>> devices;
  absl::Status unusable;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    auto device = OpenIfHopper(driver, ordinal, options);
    if (!device.ok()) {
      unusable = device.status();
      if (options.unusable) options.unusable(ordinal, unusable);
    } else if (*device != nullptr) {
      devices.push_back(*std::move(device));
    }
  }
  if (devices.empty()) {
    RETURN_IF_ERROR(unusable);
    return absl::FailedPreconditionError(
        absl::StrCat("None of this machine's ", count,
                     " CUDA devices has compute capability 9.0 (Hopper)"));
  }
  for (const auto& device : devices) {
    for (const auto& peer : devices) {
      if (peer == device) continue;
      RETURN_IF_ERROR(device->memory().Admit(peer->context().device()));
    }
  }
  return std::vector<std::unique_ptr<device::Device>>(
      std::make_move_iterator(devices.begin()),
      std::make_move_iterator(devices.end()));
}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(
    std::shared_ptr<const DriverTable> driver, int ordinal,
    const Options& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Context> context,
                   Context::Create(std::move(driver), ordinal));
  ASSIGN_OR_RETURN(device::Description description,
                   Describe(*context, ordinal));
  description.imports_ipc &= options.imports_ipc;
  ASSIGN_OR_RETURN(const int cache_bytes,
                   context->Attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
  ASSIGN_OR_RETURN(std::unique_ptr<MemoryPool> memory,
                   MemoryPool::Create(context.get()));
  auto device = std::unique_ptr<CudaDevice>(
      new CudaDevice(std::move(context), std::move(memory), options,
                     std::move(description), cache_bytes));
  RETURN_IF_ERROR(device->ReserveProbeMemory());
  return device;
}

CudaDevice::CudaDevice(std::unique_ptr<Context> context,
                       std::unique_ptr<MemoryPool> memory,
                       const Options& options, device::Description description,
                       int64_t cache_bytes)
    : context_(std::move(context)),
      memory_(std::move(memory)),
      pinned_(PinnedPool::Create(context_.get(), options.pinned)),
      staging_(options.staging),
      description_(std::move(description)),
      cache_bytes_(cache_bytes) {}

device::TimingMemory CudaDevice::TimingMemoryOf(
    const jit::Problem& problem,
    absl::Span<const device::Contender> contenders) const {
  return CudaTiming::MemoryOf(TimingDevice(), problem, contenders);
}

absl::StatusOr<std::unique_ptr<device::Timing>> CudaDevice::CreateTiming(
    const jit::Problem& problem, absl::Span<const device::Contender> contenders,
    int64_t memory_bytes) {
  return CudaTiming::Create(TimingDevice(), problem, contenders, memory_bytes);
}

int64_t CudaDevice::FreeBytes() const {
  return memory_->FreeBytes().value_or(0);
}

absl::StatusOr<std::unique_ptr<device::Imported>> CudaDevice::ImportMemory(
    const device::ImportHandle& handle) {
  const bool able = handle.import == device::Import::kVmm
                        ? description_.imports_vmm
                        : description_.imports_ipc;
  if (!able) {
    return absl::FailedPreconditionError(absl::StrCat(
        description_.name, " maps no memory of other processes by ",
        handle.import == device::Import::kVmm
            ? "descriptors of virtual memory management"
            : "legacy IPC"));
  }
  return gpu::ImportMemory(context_.get(), handle, description_.memory_bytes);
}

absl::StatusOr<std::unique_ptr<device::Lane>> CudaDevice::CreateLane() {
  return CudaLane::Create(context_.get(), memory_.get(), &launch_order_,
                          pinned_, staging_);
}

absl::StatusOr<std::unique_ptr<device::Kernel>> CudaDevice::Load(
    const jit::CompiledKernel& compiled, const jit::Plan& plan) {
  absl::StatusOr<Module> module =
      Module::Load(context_.get(), compiled.cubin, jit::kKernelSymbol);
  if (absl::IsNotFound(module.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("The cubin of ", compiled.name, " holds no kernel ",
                     jit::kKernelSymbol));
  }
  if (!module.ok()) {
    return absl::Status(module.status().code(),
                        absl::StrCat("Loading ", compiled.name, ": ",
                                     module.status().message()));
  }
  if (plan.shared_memory_bytes + compiled.static_shared_memory_bytes >
      description_.properties.shared_memory_bytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        compiled.name, " needs ", plan.shared_memory_bytes,
        " bytes of shared memory beside ", compiled.static_shared_memory_bytes,
        " static ones; ", description_.name, " has ",
        description_.properties.shared_memory_bytes));
  }
  ASSIGN_OR_RETURN(const KernelFunctions functions, FunctionsOf(*module, plan));
  RETURN_IF_ERROR(CheckClusters(context_->driver(), functions.multiply, plan));
  return std::make_unique<CudaKernel>(*std::move(module), functions);
}

absl::Status CudaDevice::ReserveProbeMemory() {
  std::lock_guard lock(probe_mutex_);
  ASSIGN_OR_RETURN(probe_.stream, Stream::Create(context_.get()));
  ASSIGN_OR_RETURN(probe_.device,
                   memory_->Allocate(probe_.stream, kProbeBytes));
  ASSIGN_OR_RETURN(probe_.host, pinned_->Allocate(kProbeBytes));
  return absl::OkStatus();
}

absl::Status CudaDevice::Probe() {
  std::lock_guard lock(probe_mutex_);
  RETURN_IF_ERROR(context_->MakeCurrent());
  const DriverTable& driver = context_->driver();
  const absl::Span<char> host = probe_.host.bytes();
  ++probe_.pattern;
  std::fill(host.begin(), host.end(), static_cast<char>(~probe_.pattern));
  RETURN_IF_CUDA_ERROR(
      driver, cuMemsetD8Async(probe_.device.get(), probe_.pattern, host.size(),
                              probe_.stream->get()));
  RETURN_IF_CUDA_ERROR(
      driver, cuMemcpyDtoHAsync(host.data(), probe_.device.get(), host.size(),
                                probe_.stream->get()));
  RETURN_IF_ERROR(probe_.stream->Synchronize());
  for (const char byte : host) {
    if (static_cast<unsigned char>(byte) != probe_.pattern) {
      return device::LostError(
          absl::StrCat("Device lost: ", description_.name,
                       " does not give back what was written to it"));
    }
  }
  return absl::OkStatus();
}

}  // namespace gemmd::gpu
