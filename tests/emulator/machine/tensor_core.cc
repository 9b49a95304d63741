#include "tests/emulator/machine/tensor_core.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace gemmd::emulator {
namespace {

struct Format {
  int exponent_bits;
  int fraction_bits;
};

constexpr Format FormatOf(Number number) {
  switch (number) {
    case Number::kF16:
      return {5, 10};
    case Number::kBf16:
      return {8, 7};
    case Number::kTf32:
      return {8, 10};
    case Number::kE4m3:
      return {4, 3};
    case Number::kE5m2:
      return {5, 2};
    default:
      return {8, 23};
  }
}

// Terms are aligned to no less than this exponent.
constexpr int kFloor = -133;

constexpr bool IsFp8(Number number) {
  return number == Number::kE4m3 || number == Number::kE5m2;
}

// significand * 2^shift, truncated toward zero.
int64_t Shifted(int64_t significand, int shift) {
  if (significand == 0) return 0;  // Of any exponent.
  if (shift >= 0) return significand << shift;
  if (shift < -62) return 0;
  return significand >= 0 ? significand >> -shift : -(-significand >> -shift);
}

int Log2(uint64_t value) { return 63 - std::countl_zero(value); }

// total * 2^unit, truncated to f32 with that many fraction bits.
uint32_t ToF32(int64_t total, int unit, int fraction_bits) {
  const uint64_t magnitude = static_cast<uint64_t>(std::abs(total));
  if (magnitude == 0) return 0;
  const int last = std::max(Log2(magnitude) + unit - fraction_bits, -149);
  const int64_t kept = Shifted(static_cast<int64_t>(magnitude), unit - last);
  const float value = std::ldexp(static_cast<float>(kept), last);
  return std::bit_cast<uint32_t>(total < 0 ? -value : value);
}

// total * 2^unit to the nearest f16, ties to even.
uint32_t ToF16(int64_t total, int unit) {
  const uint32_t sign = total < 0 ? 0x8000 : 0;
  const uint64_t magnitude = static_cast<uint64_t>(std::abs(total));
  if (magnitude == 0) return 0;
  const int last = std::max(Log2(magnitude) + unit - 10, -24);
  const int drop = last - unit;
  uint64_t kept = magnitude;
  if (drop > 0) {
    kept = magnitude >> drop;
    const uint64_t rest = magnitude - (kept << drop);
    const uint64_t half = uint64_t{1} << (drop - 1);
    if (rest > half || (rest == half && (kept & 1))) ++kept;
  } else {
    kept <<= -drop;
  }
  // A carry moves on to the next exponent by itself.
  const uint64_t bits = (static_cast<uint64_t>(last + 24) << 10) + kept;
  return sign | static_cast<uint32_t>(std::min<uint64_t>(bits, 0x7c00));
}

uint32_t Special(Number sum, bool negative, bool nan) {
  if (sum == Number::kF16) return nan ? 0x7fff : negative ? 0xfc00 : 0x7c00;
  return nan ? 0x7fffffff : negative ? 0xff800000 : 0x7f800000;
}

// The result where a term is no finite number.
uint32_t AddSpecials(const Wgmma& wgmma, const Parts* x, const Parts* y,
                     const Parts& old) {
  bool nan = false, positive = false, negative = false;
  const auto add = [&](bool minus) { (minus ? negative : positive) = true; };
  using Kind = Parts::Kind;
  for (int i = 0; i < wgmma.depth(); ++i) {
    if (x[i].kind == Kind::kNan || y[i].kind == Kind::kNan) nan = true;
    if (x[i].kind == Kind::kFinite && y[i].kind == Kind::kFinite) continue;
    if (x[i].significand == 0 || y[i].significand == 0) nan = true;
    add((x[i].significand < 0) != (y[i].significand < 0));
  }
  if (old.kind == Kind::kNan) nan = true;
  if (old.kind == Kind::kInfinite) add(old.significand < 0);
  return Special(wgmma.sum, negative, nan || (positive && negative));
}

}  // namespace

Parts PartsOf(Number number, uint32_t bits) {
  if (number == Number::kTf32) bits >>= 13;
  const Format format = FormatOf(number);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int width = format.exponent_bits + format.fraction_bits;
  const bool negative = bits >> width & 1;
  const int exponent = static_cast<int>(bits >> format.fraction_bits) &
                       ((1 << format.exponent_bits) - 1);
  int32_t significand =
      static_cast<int32_t>(bits & ((1u << format.fraction_bits) - 1));
  Parts parts;
  if (number == Number::kE4m3) {
    if ((bits & 0x7f) == 0x7f) parts.kind = Parts::Kind::kNan;
  } else if (exponent == (1 << format.exponent_bits) - 1) {
    parts.kind = significand == 0 ? Parts::Kind::kInfinite : Parts::Kind::kNan;
    significand = 1;
  }
  if (exponent != 0) significand |= 1 << format.fraction_bits;
  parts.significand = negative ? -significand : significand;
  parts.exponent = static_cast<int16_t>(std::max(exponent, 1) - bias);
  return parts;
}

uint32_t AddProducts(const Wgmma& wgmma, const Parts* x, const Parts* y,
                     uint32_t sum) {
  const int bits = IsFp8(wgmma.x) ? 13 : 25;
  Parts old = PartsOf(wgmma.sum, sum);
  bool special = old.kind != Parts::Kind::kFinite;
  int greatest = kFloor;
  if (old.significand != 0 && !special) {
    // Not normalised, as no factor is: of a subnormal sum the least exponent.
    greatest = std::max(greatest, int{old.exponent});
  }
  for (int i = 0; i < wgmma.depth(); ++i) {
    special |=
        x[i].kind != Parts::Kind::kFinite || y[i].kind != Parts::Kind::kFinite;
    if (x[i].significand == 0 || y[i].significand == 0) continue;
    greatest = std::max(greatest, x[i].exponent + y[i].exponent);
  }
  if (special) return AddSpecials(wgmma, x, y, old);
  const int unit = greatest - bits;
  const int product_fraction =
      FormatOf(wgmma.x).fraction_bits + FormatOf(wgmma.y).fraction_bits;
  int64_t total = Shifted(
      old.significand, old.exponent - FormatOf(wgmma.sum).fraction_bits - unit);
  for (int i = 0; i < wgmma.depth(); ++i) {
    total += Shifted(int64_t{x[i].significand} * y[i].significand,
                     x[i].exponent + y[i].exponent - product_fraction - unit);
  }
  if (wgmma.sum == Number::kF16) return ToF16(total, unit);
  return ToF32(total, unit, IsFp8(wgmma.x) ? 13 : 23);
}

uint32_t AddIntegerProducts(const Wgmma& wgmma, const unsigned char* x,
                            const unsigned char* y, uint32_t sum) {
  int64_t total = static_cast<int32_t>(sum);
  const auto widen = [](Number number, unsigned char byte) {
    return number == Number::kS8 ? static_cast<signed char>(byte) : int{byte};
  };
  const int bytes = wgmma.sparse ? 64 : 32;
  for (int i = 0; i < bytes; ++i) {
    total += wgmma.x == Number::kB1
                 ? std::popcount(static_cast<unsigned>(x[i] & y[i]))
                 : widen(wgmma.x, x[i]) * widen(wgmma.y, y[i]);
  }
  if (wgmma.clamps) {
    using Limits = std::numeric_limits<int32_t>;
    total = std::clamp<int64_t>(total, Limits::min(), Limits::max());
  }
  return static_cast<uint32_t>(total);
}

}  // namespace gemmd::emulator
