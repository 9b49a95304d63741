// Elements of benchmark operands: random values that host and device compute
// alike, and the bit patterns of the element types. Included by both; it may
// use nothing but the language.
#pragma once

namespace gemmd::bench {

enum class Element : int { kBf16, kF16, kF32 };

constexpr int BytesOf(Element element) {
  return element == Element::kF32 ? 4 : 2;
}

// Bits of `value`, rounded to nearest even. f16: |value| is at most 1, and
// below 2^-14 it becomes zero.
inline unsigned Encode(Element element, float value) {
  const unsigned bits = __builtin_bit_cast(unsigned, value);
  const unsigned sign = bits >> 31;
  const unsigned magnitude = bits & 0x7fffffff;
  switch (element) {
    case Element::kBf16:
      return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    case Element::kF16: {
      // Exponents are biased by 127 in f32, by 15 in f16.
      constexpr unsigned kBias = (127 - 15) << 10;
      const unsigned rounded =
          (magnitude + 0xfff + (magnitude >> 13 & 1)) >> 13;
      const bool normal = magnitude >= 0x38800000;  // 2^-14
      return sign << 15 | (normal ? rounded - kBias : 0);
    }
    case Element::kF32:
      break;
  }
  return bits;
}

inline float Decode(Element element, unsigned bits) {
  switch (element) {
    case Element::kBf16:
      return __builtin_bit_cast(float, bits << 16);
    case Element::kF16: {
      const unsigned sign = (bits & 0x8000) << 16;
      const unsigned exponent = bits >> 10 & 31;
      const unsigned fraction = bits & 0x3ff;
      if (exponent == 0) {
        const float value = static_cast<float>(fraction) * 0x1p-24f;
        return sign ? -value : value;
      }
      const unsigned wide = exponent == 31 ? 255 : exponent + 127 - 15;
      return __builtin_bit_cast(float, sign | wide << 23 | fraction << 13);
    }
    case Element::kF32:
      break;
  }
  return __builtin_bit_cast(float, bits);
}

// Uniform in (-1, 1), before it is rounded to an element type: a hash
// (splitmix64) of the element's place.
inline float RandomValue(unsigned seed, unsigned long long index) {
  unsigned long long x = (index + 1) * 0x9e3779b97f4a7c15ull + seed;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  const unsigned bits = static_cast<unsigned>((x ^ x >> 31) >> 32);
  const float magnitude = static_cast<float>(bits & 0x7fffff) * 0x1p-23f;
  return bits >> 31 ? -magnitude : magnitude;
}

}  // namespace gemmd::bench
