// Roundings against known values, and orders.
#include "clients/gemmctl/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace gemmd::gemmctl {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(ConvertTest, Bf16RoundsToNearestEven) {
  EXPECT_EQ(ToBf16(1.0f), 0x3f80);
  EXPECT_EQ(ToBf16(-2.5f), 0xc020);
  EXPECT_EQ(ToBf16(257.0f), 0x4380);  // Tie, down to 256.
  EXPECT_EQ(ToBf16(259.0f), 0x4382);  // Tie, up to 260.
  EXPECT_EQ(ToBf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(ToBf16(-kInfinity), 0xff80);
  EXPECT_EQ(ToBf16(0x1p-133f), 0x0001);
  EXPECT_EQ(ToBf16(std::bit_cast<float>(0x7f800001u)) & 0x7fc0, 0x7fc0);
}

TEST(ConvertTest, F16RoundsToNearestEven) {
  EXPECT_EQ(ToF16(1.0f), 0x3c00);
  EXPECT_EQ(ToF16(-0.0f), 0x8000);
  EXPECT_EQ(ToF16(2049.0f), 0x6800);
  EXPECT_EQ(ToF16(2051.0f), 0x6802);
  EXPECT_EQ(ToF16(65504.0f), 0x7bff);
  EXPECT_EQ(ToF16(65519.9f), 0x7bff);
  EXPECT_EQ(ToF16(65520.0f), 0x7c00);
  EXPECT_EQ(ToF16(-kInfinity), 0xfc00);
  EXPECT_EQ(ToF16(0x1p-24f), 0x0001);
  EXPECT_EQ(ToF16(0x1p-25f), 0x0000);  // Tie, down to 0.
  EXPECT_EQ(ToF16(0x1.8p-24f), 0x0002);
  EXPECT_EQ(ToF16(0x1p-14f), 0x0400);
  EXPECT_EQ(ToF16(0x1.ffcp-15f), 0x0400);  // Carries into the normals.
  EXPECT_EQ(ToF16(std::nanf("")) & 0x7e00, 0x7e00);
}

TEST(ConvertTest, EveryF16SurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const int exponent = static_cast<int>(bits >> 10);
    const int fraction = static_cast<int>(bits & 0x3ff);
    const float value =
        exponent == 0
            ? std::ldexp(static_cast<float>(fraction), -24)
            : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
    ASSERT_EQ(ToF16(value), bits);
    ASSERT_EQ(ToF16(-value), bits | 0x8000);
  }
}

TEST(ConvertTest, OnlyF32IsConverted) {
  Matrix matrix = {v1::DATA_TYPE_F32, v1::ORDER_ROW_MAJOR, 1, 2,
                   std::string(8, '\0')};
  const float one = 1.0f;
  std::memcpy(matrix.bytes.data() + 4, &one, 4);
  const auto bf16 = Convert(matrix, v1::DATA_TYPE_BF16);
  ASSERT_TRUE(bf16.ok());
  EXPECT_EQ(bf16->bytes, std::string("\0\0\x80\x3f", 4));
  EXPECT_TRUE(Convert(*bf16, v1::DATA_TYPE_BF16).ok());
  EXPECT_EQ(Convert(*bf16, v1::DATA_TYPE_F16).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ConvertTest, Fp8RoundsToNearestEvenAndStaysFinite) {
  Matrix matrix = {v1::DATA_TYPE_F32, v1::ORDER_ROW_MAJOR, 1, 4, {}};
  for (const float value : {1.0f, -17.0f, 1e9f, std::nanf("")}) {
    matrix.bytes.append(reinterpret_cast<const char*>(&value), 4);
  }
  EXPECT_EQ(Convert(matrix, v1::DATA_TYPE_E4M3)->bytes, "\x38\xd8\x7e\x7f");
  EXPECT_EQ(Convert(matrix, v1::DATA_TYPE_E5M2)->bytes, "\x3c\xcc\x7b\x7f");
  EXPECT_FALSE(Convert(matrix, v1::DATA_TYPE_S8).ok());
}

TEST(ConvertTest, InfinityDoesNotBecomeFinite) {
  Matrix matrix = {v1::DATA_TYPE_F32, v1::ORDER_ROW_MAJOR, 1, 2, {}};
  for (const float value : {kInfinity, -kInfinity}) {
    matrix.bytes.append(reinterpret_cast<const char*>(&value), 4);
  }
  EXPECT_EQ(Convert(matrix, v1::DATA_TYPE_E5M2)->bytes, "\x7c\xfc");
  EXPECT_EQ(Convert(matrix, v1::DATA_TYPE_E4M3)->bytes, "\x7f\x7f") << "NaN";
}

TEST(ConvertTest, BitsArePackedLineByLineAndBack) {
  Matrix matrix = {v1::DATA_TYPE_B1, v1::ORDER_ROW_MAJOR, 1, 9, {}, {2}};
  matrix.bytes = std::string("\1\0\0\1\0\0\0\0\1\0\1\0\0\0\0\0\0\1", 18);
  const std::string packed = Pack(matrix);
  EXPECT_EQ(packed, std::string("\x09\x01\x02\x01", 4));
  EXPECT_EQ(PackedBytes(matrix), 4);
  Matrix shape = matrix;
  shape.bytes.clear();
  EXPECT_EQ(Unpack(shape, packed).bytes, matrix.bytes);
  // Columns are lines of one bit.
  EXPECT_EQ(PackedBytes(Reorder(matrix, v1::ORDER_COLUMN_MAJOR)), 18);
}

TEST(ConvertTest, ABatchIsReorderedMatrixByMatrix) {
  const Matrix rows = {
      v1::DATA_TYPE_S8, v1::ORDER_ROW_MAJOR, 2, 3, "abcdefABCDEF", {2}};
  EXPECT_EQ(Reorder(rows, v1::ORDER_COLUMN_MAJOR).bytes, "adbecfADBECF");
}

TEST(ConvertTest, EveryTypeOfTheApiHasItsName) {
  for (int i = v1::DataType_MIN + 1; i <= v1::DataType_MAX; ++i) {
    const auto type = static_cast<v1::DataType>(i);
    const auto parsed = ParseDataType(Name(type));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, type);
  }
  EXPECT_EQ(ParseDataType("f64").status().message(),
            "f32, f16, bf16, e4m3, e5m2, s8, u8, b1, s32, s4, u4");
}

TEST(ConvertTest, ReorderTransposesTheLines) {
  const Matrix rows = {v1::DATA_TYPE_F16, v1::ORDER_ROW_MAJOR, 2, 3,
                       "aabbccddeeff"};
  const Matrix columns = Reorder(rows, v1::ORDER_COLUMN_MAJOR);
  EXPECT_EQ(columns.bytes, "aaddbbeeccff");
  EXPECT_EQ(columns.order, v1::ORDER_COLUMN_MAJOR);
  EXPECT_EQ(Reorder(columns, v1::ORDER_ROW_MAJOR).bytes, rows.bytes);
  EXPECT_EQ(Reorder(rows, v1::ORDER_ROW_MAJOR).bytes, rows.bytes);
}

}  // namespace
}  // namespace gemmd::gemmctl
