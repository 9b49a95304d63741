#include "service/host/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace gemmd::host {
namespace {

// What the bits of a small floating type mean, by definition.
double Decode(uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa ? std::nan("") : sign * INFINITY;
  }
  const double fraction = std::ldexp(mantissa, -mantissa_bits);
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias)
                               : std::ldexp(1 + fraction, exponent - bias));
}

struct Format {
  int exponent_bits;
  int mantissa_bits;
  float (*from)(uint16_t);
  uint16_t (*to)(float);
};

class NumbersTest : public testing::TestWithParam<Format> {};

TEST_P(NumbersTest, EveryValueIsReadAndWrittenBack) {
  const Format& format = GetParam();
  for (int bits = 0; bits < 65536; ++bits) {
    const double want =
        Decode(bits, format.exponent_bits, format.mantissa_bits);
    const float got = format.from(bits);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << bits;
      EXPECT_EQ(format.to(got), 0x7fff) << bits;
      continue;
    }
    ASSERT_EQ(got, want) << bits;
    ASSERT_EQ(format.to(got), bits);
  }
}

TEST_P(NumbersTest, RoundsToNearestAndTiesToEven) {
  const Format& format = GetParam();
  const uint16_t infinity = ((1 << format.exponent_bits) - 1)
                            << format.mantissa_bits;
  for (int bits = 0; bits + 1 < infinity; ++bits) {
    const float low = format.from(bits);
    const float high = format.from(bits + 1);
    const float middle = low / 2 + high / 2;  // Exact in f32.
    ASSERT_EQ(format.to(middle), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(format.to(std::nextafter(middle, low)), bits);
    ASSERT_EQ(format.to(std::nextafter(middle, high)), bits + 1);
    ASSERT_EQ(format.to(-middle), 0x8000 | (bits % 2 == 0 ? bits : bits + 1));
  }
}

TEST_P(NumbersTest, OverflowsToInfinity) {
  const Format& format = GetParam();
  EXPECT_EQ(format.from(format.to(std::numeric_limits<float>::max())),
            INFINITY);
  EXPECT_EQ(format.from(format.to(-std::numeric_limits<float>::max())),
            -INFINITY);
  EXPECT_EQ(format.from(format.to(INFINITY)), INFINITY);
}

INSTANTIATE_TEST_SUITE_P(Bf16, NumbersTest,
                         testing::Values(Format{8, 7, FromBf16, ToBf16}));
INSTANTIATE_TEST_SUITE_P(F16, NumbersTest,
                         testing::Values(Format{5, 10, FromF16, ToF16}));

}  // namespace
}  // namespace gemmd::host
