#include "service/gpu/imported_memory.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/gpu/status.h"
#include "service/gpu/unique_handle.h"

namespace gemmd::gpu {
namespace {

// What the driver makes of a handle. It is a client's, so that most errors are
// his.
absl::Status OfHandle(const DriverTable& driver, CUresult result,
                      absl::string_view call) {
  const absl::Status status = ToStatus(driver, result, call);
  if (status.ok() || IsSticky(result)) return status;
  const std::string text = absl::StrCat(
      "device_memory: the driver does not take it (", status.message(), ")");
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return absl::ResourceExhaustedError(text);
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NOT_PERMITTED:
    case CUDA_ERROR_OPERATING_SYSTEM:
      return absl::FailedPreconditionError(text);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(text,
                       "; allowed: an allocation of another process that "
                       "still has it"));
  }
}

#define RETURN_IF_HANDLE_ERROR(driver, call) \
  RETURN_IF_ERROR(OfHandle((driver), (driver).call, #call))

absl::Status CheckOrdinal(const Context& context, int ordinal) {
  if (ordinal == context.device()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("device_memory is on GPU ", ordinal,
                   " as the daemon counts them, and "
                   "device_uuid is that of GPU ",
                   context.device()));
}

class Vmm final : public device::Imported {
 public:
  static absl::StatusOr<std::unique_ptr<Imported>> Map(
      const Context* context, const device::ImportHandle& from,
      int64_t most_bytes);
  ~Vmm() override;

  absl::Span<char> bytes() const override {
    return {reinterpret_cast<char*>(address_), bytes_};
  }

 private:
  using Handle =
      UniqueHandle<CUmemGenericAllocationHandle, &DriverTable::cuMemRelease>;

  explicit Vmm(const Context* context) : context_(context) {}
  absl::Status Map(CUmemGenericAllocationHandle allocation, size_t bytes);

  const Context* const context_;
  CUdeviceptr address_ = 0;  // 0: not reserved.
  size_t bytes_ = 0;
  bool mapped_ = false;
};

absl::StatusOr<std::unique_ptr<device::Imported>> Vmm::Map(
    const Context* context, const device::ImportHandle& from,
    int64_t most_bytes) {
  const DriverTable& driver = context->driver();
  CUmemGenericAllocationHandle allocation = 0;
  RETURN_IF_HANDLE_ERROR(
      driver,
      cuMemImportFromShareableHandle(
          &allocation, reinterpret_cast<void*>(static_cast<intptr_t>(from.fd)),
          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  // A mapping keeps the memory without it.
  const Handle owner(context, allocation);
  CUmemAllocationProp properties = {};
  RETURN_IF_HANDLE_ERROR(
      driver, cuMemGetAllocationPropertiesFromHandle(&properties, allocation));
  if (properties.type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return absl::InvalidArgumentError(
        "device_memory is no memory of a GPU; allowed: "
        "CU_MEM_ALLOCATION_TYPE_PINNED at a CU_MEM_LOCATION_TYPE_DEVICE");
  }
  RETURN_IF_ERROR(CheckOrdinal(*context, properties.location.id));
  size_t unit = 0;
  RETURN_IF_HANDLE_ERROR(
      driver, cuMemGetAllocationGranularity(&unit, &properties,
                                            CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  if (from.bytes <= 0 || from.bytes > most_bytes || unit == 0 ||
      from.bytes % static_cast<int64_t>(unit) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("device_memory.bytes is ", from.bytes,
                     "; allowed: those of the allocation, a multiple of ", unit,
                     " up to ", most_bytes));
  }
  auto memory = std::unique_ptr<Vmm>(new Vmm(context));
  RETURN_IF_ERROR(memory->Map(allocation, static_cast<size_t>(from.bytes)));
  return memory;
}

// The driver maps no more than there is: so `bytes` are not only said.
absl::Status Vmm::Map(CUmemGenericAllocationHandle allocation, size_t bytes) {
  const DriverTable& driver = context_->driver();
  RETURN_IF_HANDLE_ERROR(driver,
                         cuMemAddressReserve(&address_, bytes, 0, 0, 0));
  bytes_ = bytes;
  RETURN_IF_HANDLE_ERROR(driver, cuMemMap(address_, bytes, 0, allocation, 0));
  mapped_ = true;
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = context_->device();
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  RETURN_IF_HANDLE_ERROR(driver, cuMemSetAccess(address_, bytes, &access, 1));
  return absl::OkStatus();
}

Vmm::~Vmm() {
  if (address_ == 0 || !context_->MakeCurrent().ok()) return;
  if (mapped_) context_->driver().cuMemUnmap(address_, bytes_);
  context_->driver().cuMemAddressFree(address_, bytes_);
}

class Ipc final : public device::Imported {
 public:
  static absl::StatusOr<std::unique_ptr<Imported>> Open(
      const Context* context, const device::ImportHandle& from);

  absl::Span<char> bytes() const override {
    return {reinterpret_cast<char*>(opened_.get()), bytes_};
  }

 private:
  using Opened = UniqueHandle<CUdeviceptr, &DriverTable::cuIpcCloseMemHandle>;

  Ipc(Opened opened, size_t bytes)
      : opened_(std::move(opened)), bytes_(bytes) {}

  const Opened opened_;
  const size_t bytes_;
};

absl::StatusOr<std::unique_ptr<device::Imported>> Ipc::Open(
    const Context* context, const device::ImportHandle& from) {
  const DriverTable& driver = context->driver();
  CUipcMemHandle handle;
  if (from.ipc.size() != sizeof handle) {
    return absl::InvalidArgumentError(
        absl::StrCat("device_memory.ipc_handle has ", from.ipc.size(),
                     " bytes; allowed: ", sizeof handle));
  }
  std::memcpy(&handle, from.ipc.data(), sizeof handle);
  CUdeviceptr address = 0;
  RETURN_IF_HANDLE_ERROR(
      driver,
      cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  Opened opened(context, address);
  int ordinal = -1;
  RETURN_IF_HANDLE_ERROR(
      driver, cuPointerGetAttribute(
                  &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
  RETURN_IF_ERROR(CheckOrdinal(*context, ordinal));
  // The handle may be of an address within the block.
  CUdeviceptr base = 0;
  size_t bytes = 0;
  RETURN_IF_HANDLE_ERROR(driver, cuMemGetAddressRange(&base, &bytes, address));
  if (address < base || address - base >= bytes) {
    return absl::InvalidArgumentError(
        "device_memory.ipc_handle names no byte of its block");
  }
  return std::unique_ptr<Imported>(
      new Ipc(std::move(opened), bytes - (address - base)));
}

}  // namespace

absl::Status DescribeImports(const Context& context,
                             device::Description& description) {
  CUuuid uuid = {};
  RETURN_IF_CUDA_ERROR(context.driver(),
                       cuDeviceGetUuid(&uuid, context.device()));
  const std::string digits =
      absl::BytesToHexString(absl::string_view(uuid.bytes, sizeof uuid.bytes));
  const auto part = [&](size_t at, size_t size) {
    return absl::string_view(digits).substr(at, size);
  };
  description.uuid =
      absl::StrCat("GPU-", part(0, 8), "-", part(8, 4), "-", part(12, 4), "-",
                   part(16, 4), "-", part(20, 12));
  ASSIGN_OR_RETURN(
      const int vmm,
      context.Attribute(
          CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED));
  ASSIGN_OR_RETURN(
      const int managed,
      context.Attribute(
          CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED));
  description.imports_vmm = vmm != 0 && managed != 0;
  // What cuda.h names as the test of IPC, of memory too.
  ASSIGN_OR_RETURN(const int ipc,
                   context.Attribute(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED));
  description.imports_ipc = ipc != 0;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<device::Imported>> ImportMemory(
    const Context* context, const device::ImportHandle& handle,
    int64_t most_bytes) {
  RETURN_IF_ERROR(context->MakeCurrent());
  return handle.import == device::Import::kVmm
             ? Vmm::Map(context, handle, most_bytes)
             : Ipc::Open(context, handle);
}

}  // namespace gemmd::gpu
