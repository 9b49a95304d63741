// Conversions between FP8 and f32 (OCP 8-bit Floating Point Specification):
// rounding is to nearest even, what is beyond the greatest finite value becomes
// that value, NaN stays NaN. Pure functions.
#ifndef GEMMD_SERVICE_HOST_FP8_H_
#define GEMMD_SERVICE_HOST_FP8_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace gemmd::host {

struct Fp8 {
  int mantissa_bits;
  int least_exponent;  // Of normal numbers.
  uint8_t greatest;    // Finite value.
  uint8_t infinity;    // 0 where the type has none.
};

inline constexpr Fp8 kE4m3 = {3, -6, 0x7e, 0};
inline constexpr Fp8 kE5m2 = {2, -14, 0x7b, 0x7c};

template <Fp8 type>
float FromFp8(uint8_t value) {
  const int magnitude = value & 0x7f;
  const float sign = value & 0x80 ? -1.0f : 1.0f;
  if (magnitude > type.greatest) {
    return type.infinity != 0 && magnitude == type.infinity
               ? sign * std::numeric_limits<float>::infinity()
               : std::numeric_limits<float>::quiet_NaN();
  }
  const int normal = 1 << type.mantissa_bits;
  const int exponent = std::max(magnitude >> type.mantissa_bits, 1);
  const int fraction = magnitude - (exponent - 1) * normal;
  return sign *
         std::ldexp(static_cast<float>(fraction),
                    exponent - 1 + type.least_exponent - type.mantissa_bits);
}

template <Fp8 type>
uint8_t ToFp8(float value) {
  if (std::isnan(value)) return 0x7f;
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const float magnitude = std::abs(value);
  if (std::isinf(magnitude)) return sign | type.greatest;
  // In steps of the last bit; a carry moves on to the next exponent by itself.
  const int exponent =
      magnitude == 0 ? type.least_exponent
                     : std::max(std::ilogb(magnitude), type.least_exponent);
  const float steps =
      std::nearbyint(std::ldexp(magnitude, type.mantissa_bits - exponent));
  const float bits =
      std::ldexp(static_cast<float>(exponent - type.least_exponent),
                 type.mantissa_bits) +
      steps;
  return sign | static_cast<uint8_t>(
                    std::min(bits, static_cast<float>(type.greatest)));
}

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_FP8_H_
