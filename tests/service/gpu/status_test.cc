#include "service/gpu/status.h"

#include <gtest/gtest.h>

#include "service/device/lost.h"
#include "service/gpu/driver_table.h"
#include "tests/service/gpu/fake_driver.h"

namespace gemmd::gpu {
namespace {

using absl::StatusCode;

TEST(StatusTest, ClassifiesByEnum) {
  const std::pair<CUresult, StatusCode> cases[] = {
      {CUDA_SUCCESS, StatusCode::kOk},
      {CUDA_ERROR_OUT_OF_MEMORY, StatusCode::kResourceExhausted},
      {CUDA_ERROR_NO_BINARY_FOR_GPU, StatusCode::kFailedPrecondition},
      {CUDA_ERROR_INVALID_IMAGE, StatusCode::kFailedPrecondition},
      {CUDA_ERROR_NO_DEVICE, StatusCode::kFailedPrecondition},
      {CUDA_ERROR_NOT_FOUND, StatusCode::kNotFound},
      {CUDA_ERROR_NOT_SUPPORTED, StatusCode::kUnimplemented},
      {CUDA_ERROR_ILLEGAL_ADDRESS, StatusCode::kUnavailable},
      {CUDA_ERROR_INVALID_VALUE, StatusCode::kInternal},
      {CUDA_ERROR_UNKNOWN, StatusCode::kInternal},
  };
  for (const auto& [result, code] : cases) {
    EXPECT_EQ(ToStatusCode(result), code) << result;
  }
}

TEST(StatusTest, NamesTheCallWithoutItsArguments) {
  FakeDriver fake;
  const absl::Status status = ToStatus(*fake.table(), CUDA_ERROR_INVALID_VALUE,
                                       "cuMemFreeAsync(pointer, stream)");
  EXPECT_EQ(status.message(), "cuMemFreeAsync failed with CUDA_ERROR_FAKE (1)");
}

TEST(StatusTest, SaysWhenTheDeviceIsLost) {
  FakeDriver fake;
  const absl::Status status = ToStatus(*fake.table(), CUDA_ERROR_LAUNCH_FAILED,
                                       "cuStreamSynchronize(s)");
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_TRUE(device::IsLost(status));
  EXPECT_FALSE(device::IsLost(ToStatus(*fake.table(), CUDA_ERROR_INVALID_VALUE,
                                       "cuStreamSynchronize(s)")));
  EXPECT_EQ(status.message(),
            "Device lost: cuStreamSynchronize failed with CUDA_ERROR_FAKE "
            "(719)");
}

TEST(StatusTest, CopesWithErrorsThatTheDriverCannotName) {
  FakeDriver fake;
  EXPECT_EQ(ToStatus(*fake.table(), CUDA_ERROR_UNKNOWN, "cuInit(0)").message(),
            "cuInit failed with an unknown error (999)");
}

TEST(LoadDriverTest, WithoutALibrarySaysWhatIsNeeded) {
  const auto driver = LoadDriver("libgemmd-no-such-driver.so.1");
  EXPECT_EQ(driver.status().code(), StatusCode::kNotFound);
  EXPECT_NE(driver.status().message().find("NVIDIA driver"),
            absl::string_view::npos);
}

TEST(LoadDriverTest, NamesTheSymbolThatAnOldDriverLacks) {
  const auto driver = LoadDriver("libm.so.6");
  EXPECT_EQ(driver.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(driver.status().message().find("cuInit"), absl::string_view::npos);
}

}  // namespace
}  // namespace gemmd::gpu
