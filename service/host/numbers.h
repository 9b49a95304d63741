// Conversions between f32 and narrower types, bit exact: rounding is to nearest
// even, NaN becomes the GPU's NaN, overflow of floating types goes to infinity.
// FP8 has a file of its own. Pure functions.
#ifndef GEMMD_SERVICE_HOST_NUMBERS_H_
#define GEMMD_SERVICE_HOST_NUMBERS_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace gemmd::host {

inline float FromBf16(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

// What a GPU computes that is no number has these bits.
inline float WithNanOfGpu(float value) {
  return std::isnan(value) ? std::bit_cast<float>(0x7fffffff) : value;
}

inline uint16_t ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) {
    return 0x7fff;  // NaN.
  }
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float FromF16(uint16_t value) {
  const uint32_t sign = static_cast<uint32_t>(value & 0x8000) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(value & 0x7fff) << 13;
  if ((value & 0x7c00) == 0x7c00) {  // Infinity or NaN.
    return std::bit_cast<float>(sign | 0x7f800000 | magnitude);
  }
  // The exponent is read with the bias of f32 instead of f16 (127 - 15).
  const float unbiased = std::bit_cast<float>(magnitude) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(unbiased) | sign);
}

inline uint16_t ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7fff;          // NaN.
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // 65520 rounds to inf.
  if (magnitude < 0x38800000) {
    // Subnormal in f16: the spacing of f32 at 0.5 is that of f16 near zero,
    // so the addition rounds as wanted.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) -
                                        std::bit_cast<uint32_t>(0.5f));
  }
  const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return sign | static_cast<uint16_t>((rounded - (112u << 23)) >> 13);
}

// The 13 bits of fraction that TF32 lacks are cut off. NaN stays NaN.
inline float TruncateToTf32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t quiet = (bits & 0x7fffffff) > 0x7f800000 ? 0x400000 : 0;
  return std::bit_cast<float>((bits & ~0x1fffu) | quiet);
}

inline float RoundToTf32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7f800000) == 0x7f800000) return TruncateToTf32(value);
  return std::bit_cast<float>((bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu);
}

// Clamped to the type; NaN becomes 0.
template <typename Integer>
Integer ToInteger(float value) {
  if (std::isnan(value)) return 0;
  using Limits = std::numeric_limits<Integer>;
  return static_cast<Integer>(
      std::nearbyint(std::clamp<float>(value, Limits::min(), Limits::max())));
}

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_NUMBERS_H_
