#include "service/host/fp8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace gemmd::host {
namespace {

template <Fp8 type>
void ReadsAndWritesBackEveryValue() {
  for (int bits = 0; bits < 256; ++bits) {
    const float value = FromFp8<type>(bits);
    if (std::isnan(value)) {
      EXPECT_EQ(ToFp8<type>(value), 0x7f) << bits;
    } else if (std::isinf(value)) {
      EXPECT_EQ(ToFp8<type>(value), (bits & 0x80) | type.greatest) << bits;
    } else {
      EXPECT_EQ(ToFp8<type>(value), bits) << bits;
    }
  }
}

template <Fp8 type>
void RoundsToNearestAndTiesToEven() {
  for (int bits = 0; bits < type.greatest; ++bits) {
    const float low = FromFp8<type>(bits);
    const float high = FromFp8<type>(bits + 1);
    ASSERT_LT(low, high);
    const float middle = (low + high) / 2;
    EXPECT_EQ(ToFp8<type>(middle), bits + bits % 2) << bits;
    EXPECT_EQ(ToFp8<type>(std::nextafter(middle, low)), bits);
    EXPECT_EQ(ToFp8<type>(std::nextafter(middle, high)), bits + 1);
    EXPECT_EQ(ToFp8<type>(-middle), 0x80 | (bits + bits % 2));
  }
}

TEST(Fp8Test, ReadsAndWritesBackEveryValue) {
  ReadsAndWritesBackEveryValue<kE4m3>();
  ReadsAndWritesBackEveryValue<kE5m2>();
}

TEST(Fp8Test, RoundsToNearestAndTiesToEven) {
  RoundsToNearestAndTiesToEven<kE4m3>();
  RoundsToNearestAndTiesToEven<kE5m2>();
}

TEST(Fp8Test, KnowsTheLandmarks) {
  EXPECT_EQ(FromFp8<kE4m3>(0x7e), 448);
  EXPECT_EQ(FromFp8<kE4m3>(0x01), 0x1p-9f);
  EXPECT_EQ(FromFp8<kE4m3>(0x38), 1);
  EXPECT_TRUE(std::isnan(FromFp8<kE4m3>(0x7f)));
  EXPECT_EQ(FromFp8<kE5m2>(0x7b), 57344);
  EXPECT_EQ(FromFp8<kE5m2>(0x01), 0x1p-16f);
  EXPECT_EQ(FromFp8<kE5m2>(0xfc), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(FromFp8<kE5m2>(0x7d)));
}

TEST(Fp8Test, SaturatesToTheGreatestFiniteValue) {
  for (const float value : {465.0f, 1e30f, INFINITY}) {
    EXPECT_EQ(ToFp8<kE4m3>(value), 0x7e) << value;
    EXPECT_EQ(ToFp8<kE4m3>(-value), 0xfe) << value;
  }
  EXPECT_EQ(ToFp8<kE5m2>(1e30f), 0x7b);
  EXPECT_EQ(ToFp8<kE5m2>(-INFINITY), 0xfb);
}

}  // namespace
}  // namespace gemmd::host
