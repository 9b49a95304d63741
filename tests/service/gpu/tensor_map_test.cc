// What the driver is asked to encode.
#include "service/gpu/tensor_map.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/service/gpu/fake_driver.h"

namespace gemmd::gpu {
namespace {

constexpr jit::TensorMapSpec kSpec = {.type = jit::DataType::kBf16,
                                      .width = 32,
                                      .lines = 7,
                                      .pitch_bytes = 64,
                                      .matrices = 2,
                                      .matrix_bytes = 448,
                                      .box_width = 16,
                                      .box_lines = 8,
                                      .swizzle_bytes = 128};

TEST(TensorMapTest, MapsTypesAndSwizzles) {
  FakeDriver fake;
  jit::TensorMapSpec spec = kSpec;
  const std::pair<jit::DataType, CUtensorMapDataType> types[] = {
      {jit::DataType::kF32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32},
      {jit::DataType::kF16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16},
      {jit::DataType::kBf16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16},
      {jit::DataType::kE4m3, CU_TENSOR_MAP_DATA_TYPE_UINT8},
      {jit::DataType::kB1, CU_TENSOR_MAP_DATA_TYPE_UINT8},
      {jit::DataType::kS32, CU_TENSOR_MAP_DATA_TYPE_INT32},
  };
  for (const auto& [type, expected] : types) {
    spec.type = type;
    ASSERT_TRUE(EncodeTensorMap(*fake.table(), spec, 0x1000).ok());
    EXPECT_EQ(fake.maps.back().type, expected);
  }
  const std::pair<int, CUtensorMapSwizzle> swizzles[] = {
      {0, CU_TENSOR_MAP_SWIZZLE_NONE},
      {32, CU_TENSOR_MAP_SWIZZLE_32B},
      {64, CU_TENSOR_MAP_SWIZZLE_64B},
      {128, CU_TENSOR_MAP_SWIZZLE_128B},
  };
  for (const auto& [bytes, expected] : swizzles) {
    spec.swizzle_bytes = bytes;
    ASSERT_TRUE(EncodeTensorMap(*fake.table(), spec, 0x1000).ok());
    EXPECT_EQ(fake.maps.back().swizzle, expected);
  }
  EXPECT_EQ(fake.maps.back().lines, 7u);
  EXPECT_EQ(fake.maps.back().stride_bytes, 64u);
  EXPECT_EQ(fake.maps.back().matrices, 2u);
  EXPECT_EQ(fake.maps.back().matrix_bytes, 448u);
  EXPECT_EQ(fake.maps.back().box_width, 16u);
  EXPECT_EQ(fake.maps.back().box_lines, 8u);
}

// The copy engine rounds what the tensor core would truncate.
TEST(TensorMapTest, RoundsToTf32WhenAsked) {
  FakeDriver fake;
  jit::TensorMapSpec spec = kSpec;
  spec.type = jit::DataType::kF32;
  spec.rounds_tf32 = true;
  ASSERT_TRUE(EncodeTensorMap(*fake.table(), spec, 0x1000).ok());
  EXPECT_EQ(fake.maps.back().type, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32);
}

TEST(TensorMapTest, RefusesWhatNoMapCanDescribe) {
  FakeDriver fake;
  jit::TensorMapSpec spec = kSpec;
  spec.swizzle_bytes = 96;
  EXPECT_FALSE(EncodeTensorMap(*fake.table(), spec, 0x1000).ok());
  EXPECT_TRUE(fake.maps.empty());
}

}  // namespace
}  // namespace gemmd::gpu
