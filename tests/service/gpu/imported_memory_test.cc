// Allocations of other processes: what is mapped, what is refused, and that
// nothing is left of either.
#include "service/gpu/imported_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "service/device/lost.h"
#include "service/gpu/cuda_device.h"
#include "tests/service/gpu/fake_driver.h"

namespace gemmd::gpu {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBytes = 3 * FakeExports::kUnit;

class ImportedMemoryTest : public testing::Test {
 protected:
  ~ImportedMemoryTest() override {
    EXPECT_EQ(fake_.exports.live(), 0) << "handles or mappings are left";
  }

  using Imported = absl::StatusOr<std::unique_ptr<device::Imported>>;
  Imported Vmm(int fd, int64_t bytes = kBytes) {
    return device_->ImportMemory(
        {.import = device::Import::kVmm, .fd = fd, .bytes = bytes});
  }
  Imported Ipc(std::string handle) {
    return device_->ImportMemory(
        {.import = device::Import::kIpc, .ipc = std::move(handle)});
  }
  void ExpectRefused(
      const Imported& imported, const std::string& why,
      absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    EXPECT_EQ(imported.status().code(), code) << imported.status();
    EXPECT_THAT(std::string(imported.status().message()), HasSubstr(why));
    EXPECT_EQ(fake_.exports.live(), 0);
    EXPECT_FALSE(device::IsLost(imported.status()));
    EXPECT_TRUE(device_->Probe().ok());
  }

  FakeDriver fake_;
  const std::unique_ptr<CudaDevice> device_ =
      *CudaDevice::Open(fake_.table(), 0, {});
};

TEST_F(ImportedMemoryTest, ADeviceSaysWhatItImports) {
  const device::Description& description = device_->description();
  EXPECT_EQ(description.uuid, "GPU-10101010-1010-1010-1010-101010101010");
  EXPECT_TRUE(description.imports_vmm);
  EXPECT_TRUE(description.imports_ipc);
  for (const CUdevice_attribute attribute :
       {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED}) {
    fake_.attributes[attribute] = 0;
    const auto without = *CudaDevice::Open(fake_.table(), 0, {});
    EXPECT_FALSE(without->description().imports_vmm);
    const jit::UniqueFd fd = fake_.exports.Descriptor({.bytes = kBytes});
    ExpectRefused(without->ImportMemory({.fd = fd.get(), .bytes = kBytes}),
                  "cuda:0 maps no memory of other processes by descriptors",
                  absl::StatusCode::kFailedPrecondition);
    fake_.attributes[attribute] = 1;
  }
  fake_.attributes[CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED] = 0;
  const auto without = *CudaDevice::Open(fake_.table(), 0, {});
  EXPECT_FALSE(without->description().imports_ipc);
  EXPECT_TRUE(without->description().imports_vmm);
  const auto refused =
      without->ImportMemory({.import = device::Import::kIpc,
                             .ipc = fake_.exports.IpcHandle({.bytes = 4})});
  ExpectRefused(refused, "cuda:0 maps no memory of other processes by legacy",
                absl::StatusCode::kFailedPrecondition);
}

TEST_F(ImportedMemoryTest, LegacyIpcCanBeLeftOut) {
  const auto without =
      *CudaDevice::Open(fake_.table(), 0, {.imports_ipc = false});
  EXPECT_FALSE(without->description().imports_ipc);
  EXPECT_TRUE(without->description().imports_vmm);
  EXPECT_EQ(without
                ->ImportMemory({.import = device::Import::kIpc,
                                .ipc = fake_.exports.IpcHandle({.bytes = 4})})
                .status()
                .code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(ImportedMemoryTest, ADescriptorIsMappedAndGivenBack) {
  const jit::UniqueFd fd = fake_.exports.Descriptor({.bytes = kBytes});
  {
    const Imported imported = Vmm(fd.get());
    ASSERT_TRUE(imported.ok()) << imported.status();
    const absl::Span<char> bytes = (*imported)->bytes();
    EXPECT_EQ(bytes.size(), size_t{kBytes});
    EXPECT_TRUE(fake_.memory.ExpectUsable("test", FakeMemory::Kind::kDevice,
                                          bytes.data(), bytes.size()));
    EXPECT_EQ(fake_.CountOf("cuMemRelease"), 1) << "a mapping needs no handle";
  }
  EXPECT_EQ(fake_.CountOf("cuMemUnmap"), 1);
  EXPECT_EQ(fake_.CountOf("cuMemAddressFree"), 1);
}

TEST_F(ImportedMemoryTest, TheSizeIsNotBelieved) {
  const jit::UniqueFd fd = fake_.exports.Descriptor({.bytes = kBytes});
  ExpectRefused(Vmm(fd.get(), kBytes + FakeExports::kUnit),
                "the driver does not take it (cuMemMap failed");
  for (const int64_t bytes : {int64_t{0}, int64_t{-4194304}, kBytes - 1,
                              int64_t{FakeExports::kUnit} << 40}) {
    ExpectRefused(Vmm(fd.get(), bytes),
                  absl::StrCat("device_memory.bytes is ", bytes,
                               "; allowed: those of the allocation, a "
                               "multiple of 2097152 up to 85899345920"));
  }
}

TEST_F(ImportedMemoryTest, WhatIsNoMemoryOfThisGpuIsRefused) {
  const jit::UniqueFd other =
      fake_.exports.Descriptor({.bytes = kBytes, .device = 1});
  ExpectRefused(Vmm(other.get()), "device_memory is on GPU 1");
  const jit::UniqueFd host = fake_.exports.Descriptor(
      {.bytes = kBytes, .location = CU_MEM_LOCATION_TYPE_HOST});
  ExpectRefused(Vmm(host.get()), "device_memory is no memory of a GPU");
  ExpectRefused(Ipc(fake_.exports.IpcHandle({.bytes = 4096, .device = 1})),
                "device_memory is on GPU 1");
}

TEST_F(ImportedMemoryTest, WhatNamesNothingIsRefused) {
  const jit::UniqueFd file(memfd_create("file", MFD_CLOEXEC));
  for (const int fd : {file.get(), -1, 12345}) {
    ExpectRefused(Vmm(fd),
                  "the driver does not take it (cuMemImportFromShareableHandle "
                  "failed with CUDA_ERROR_FAKE (1)); allowed: an allocation of "
                  "another process that still has it");
  }
  ExpectRefused(Ipc(std::string(64, 'x')), "cuIpcOpenMemHandle failed");
  for (const size_t size : {0, 63, 65}) {
    ExpectRefused(Ipc(std::string(size, 'x')),
                  absl::StrCat("ipc_handle has ", size, " bytes; allowed: 64"));
  }
}

TEST_F(ImportedMemoryTest, AHandleOfIpcHasTheBytesBehindIt) {
  {
    const Imported whole =
        Ipc(fake_.exports.IpcHandle({.bytes = 1000, .offset = 0}));
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ((*whole)->bytes().size(), 1000u);
    const Imported rest =
        Ipc(fake_.exports.IpcHandle({.bytes = 4096, .offset = 512}));
    ASSERT_TRUE(rest.ok()) << rest.status();
    EXPECT_EQ((*rest)->bytes().size(), 3584u);
  }
  EXPECT_EQ(fake_.CountOf("cuIpcCloseMemHandle"), 2);
}

// Each call of the driver's may fail.
TEST_F(ImportedMemoryTest, WhatFailsLeavesNothing) {
  const jit::UniqueFd fd = fake_.exports.Descriptor({.bytes = kBytes});
  for (const char* call :
       {"cuMemImportFromShareableHandle",
        "cuMemGetAllocationPropertiesFromHandle", "cuMemAddressReserve",
        "cuMemMap", "cuMemSetAccess"}) {
    fake_.Fail(call, CUDA_ERROR_OUT_OF_MEMORY);
    ExpectRefused(Vmm(fd.get()), call, absl::StatusCode::kResourceExhausted);
    fake_.Fail(call, CUDA_ERROR_NOT_SUPPORTED);
    ExpectRefused(Vmm(fd.get()), call, absl::StatusCode::kFailedPrecondition);
  }
  const std::string handle = fake_.exports.IpcHandle({.bytes = 4096});
  for (const char* call : {"cuIpcOpenMemHandle", "cuPointerGetAttribute",
                           "cuMemGetAddressRange"}) {
    // What a handle of this very process gives.
    fake_.Fail(call, CUDA_ERROR_INVALID_CONTEXT);
    ExpectRefused(Ipc(handle), call);
  }
}

TEST_F(ImportedMemoryTest, ALostDeviceIsNoClientsFault) {
  const jit::UniqueFd fd = fake_.exports.Descriptor({.bytes = kBytes});
  fake_.Fail("cuMemMap", CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_TRUE(device::IsLost(Vmm(fd.get()).status()));
}

}  // namespace
}  // namespace gemmd::gpu
