#include "tests/emulator/machine/tensor_core.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/match.h"
#include "tests/service/host/hopper/vectors.h"

namespace gemmd::emulator {
namespace {

struct Form {
  const char* prefix;  // Of the name of the arithmetic.
  Wgmma wgmma;
};

// The longest prefix that fits comes first.
constexpr Form kForms[] = {
    {"bf16", {Number::kBf16, Number::kBf16, Number::kF32}},
    {"f16-f16", {Number::kF16, Number::kF16, Number::kF16}},
    {"f16", {Number::kF16, Number::kF16, Number::kF32}},
    {"tf32", {Number::kTf32, Number::kTf32, Number::kF32}},
    {"e4m3-e5m2", {Number::kE4m3, Number::kE5m2, Number::kF32}},
    {"e5m2-e4m3", {Number::kE5m2, Number::kE4m3, Number::kF32}},
    {"e4m3", {Number::kE4m3, Number::kE4m3, Number::kF32}},
    {"e5m2", {Number::kE5m2, Number::kE5m2, Number::kF32}},
};

const Wgmma* FormOf(const std::string& arithmetic) {
  for (const Form& form : kForms) {
    if (absl::StartsWith(arithmetic, form.prefix)) return &form.wgmma;
  }
  return nullptr;
}

std::vector<Parts> PartsOf(Number number, std::string bytes) {
  const auto size = static_cast<size_t>(BitsOf(number) / 8);
  bytes.resize((bytes.size() + 31) / 32 * 32);
  std::vector<Parts> parts;
  for (size_t at = 0; at < bytes.size(); at += size) {
    uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, size);
    // The copy engine rounds to tf32.
    if (number == Number::kTf32) bits += 0xfff + (bits >> 13 & 1);
    parts.push_back(emulator::PartsOf(number, bits));
  }
  return parts;
}

float Widen(Number sum, uint32_t bits) {
  if (sum == Number::kF32) return std::bit_cast<float>(bits);
  const Parts parts = emulator::PartsOf(Number::kF16, bits);
  return std::ldexp(static_cast<float>(parts.significand), parts.exponent - 10);
}

// Sums of fp8 are promoted every 128 k, unless fast.
float SumOf(const Wgmma& wgmma, const host::Vector& vector) {
  const std::vector<Parts> a = PartsOf(wgmma.x, vector.a);
  const std::vector<Parts> b = PartsOf(wgmma.y, vector.b);
  const bool promotes =
      BitsOf(wgmma.x) == 8 && !absl::EndsWith(vector.arithmetic, "-fast");
  float total = 0;
  uint32_t sum = 0;
  for (size_t k = 0; k < a.size(); k += static_cast<size_t>(wgmma.depth())) {
    if (promotes && k % 128 == 0) {
      total += Widen(wgmma.sum, sum);
      sum = 0;
    }
    sum = AddProducts(wgmma, &a[k], &b[k], sum);
  }
  return total + Widen(wgmma.sum, sum);
}

TEST(TensorCoreTest, GivesTheBitsThatAnH200Gave) {
  const auto vectors = host::ReadVectors(GEMMD_TEST_VECTORS);
  ASSERT_GT(vectors.size(), 100u);
  for (const host::Vector& vector : vectors) {
    const Wgmma* const wgmma = FormOf(vector.arithmetic);
    ASSERT_NE(wgmma, nullptr) << vector.arithmetic;
    EXPECT_EQ(std::bit_cast<uint32_t>(SumOf(*wgmma, vector)), vector.sum)
        << vector.arithmetic << ", k = " << vector.a.size();
  }
}

TEST(TensorCoreTest, InfinitiesAndNansAreTheGpus) {
  const Wgmma wgmma = {Number::kBf16, Number::kBf16, Number::kF32};
  const auto sum = [&](uint32_t first, uint32_t second, uint32_t old) {
    std::vector<Parts> x(16), y(16);
    x[3] = emulator::PartsOf(Number::kBf16, first);
    y[3] = emulator::PartsOf(Number::kBf16, second);
    return AddProducts(wgmma, x.data(), y.data(), old);
  };
  constexpr uint32_t kOne = 0x3f80, kInfinity = 0x7f80, kNan = 0x7fc0;
  EXPECT_EQ(sum(kInfinity, kOne, 0), 0x7f800000u);
  EXPECT_EQ(sum(kInfinity, 0x8000 | kOne, 0), 0xff800000u);
  EXPECT_EQ(sum(kInfinity, 0, 0), 0x7fffffffu);
  EXPECT_EQ(sum(kNan, kOne, 0), 0x7fffffffu);
  EXPECT_EQ(sum(kInfinity, kOne, 0xff800000), 0x7fffffffu);
}

TEST(TensorCoreTest, ASubnormalSumInF16HasTheLeastExponent) {
  const Wgmma wgmma = {Number::kE5m2, Number::kE5m2, Number::kF16};
  std::vector<Parts> x(32), y(32);
  // 6, 24, 8 and -1536 times 2^-16.
  x[0] = emulator::PartsOf(Number::kE5m2, 0x06);
  y[0] = emulator::PartsOf(Number::kE5m2, 0x0e);
  x[1] = emulator::PartsOf(Number::kE5m2, 0x08);
  y[1] = emulator::PartsOf(Number::kE5m2, 0xa6);
  EXPECT_EQ(AddProducts(wgmma, x.data(), y.data(), 344), 296u);
}

TEST(TensorCoreTest, IntegersWrapOrClamp) {
  Wgmma wgmma = {Number::kS8, Number::kU8, Number::kS32};
  unsigned char x[32] = {127}, y[32] = {255};
  constexpr uint32_t kMost = 0x7fffffff;
  EXPECT_EQ(AddIntegerProducts(wgmma, x, y, kMost), kMost + 127 * 255);
  wgmma.clamps = true;
  EXPECT_EQ(AddIntegerProducts(wgmma, x, y, kMost), kMost);
  x[0] = 0x80;  // -128.
  EXPECT_EQ(AddIntegerProducts(wgmma, x, y, 5),
            static_cast<uint32_t>(5 - 128 * 255));
}

TEST(TensorCoreTest, BitsAreCountedWhereBothAreOne) {
  const Wgmma wgmma = {Number::kB1, Number::kB1, Number::kS32};
  unsigned char x[32] = {0xff, 0x0f}, y[32] = {0x3c, 0x1e};
  EXPECT_EQ(AddIntegerProducts(wgmma, x, y, 10), 10u + 4 + 3);
}

}  // namespace
}  // namespace gemmd::emulator
