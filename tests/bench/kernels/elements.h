// Elements of benchmark operands: random values that host and device compute
// alike, and the bit patterns of the element types. Included by both; it may
// use nothing but the language.
#pragma once

namespace gemmd::bench {

// kBits stands for eight elements of b1: their byte. kTwoOfFour and kOneOfTwo
// stand for a byte of a sparse line's metadata, two patterns.
enum class Element : int {
  kBf16,
  kF16,
  kF32,
  kE4m3,
  kE5m2,
  kS8,
  kU8,
  kBits,
  kS32,
  kTwoOfFour,
  kOneOfTwo
};

constexpr int BytesOf(Element element) {
  switch (element) {
    case Element::kF32:
    case Element::kS32:
      return 4;
    case Element::kBf16:
    case Element::kF16:
      return 2;
    default:
      return 1;
  }
}

// A small floating type: bits of its fraction, bias of its exponent.
struct Small {
  int fraction;
  int bias;
};

constexpr Small SmallOf(Element element) {
  switch (element) {
    case Element::kE4m3:
      return {3, 7};
    case Element::kE5m2:
      return {2, 15};
    default:
      return {10, 15};  // f16.
  }
}

inline float PowerOfTwo(int exponent) {
  return __builtin_bit_cast(float, static_cast<unsigned>(127 + exponent) << 23);
}

// Bits of a |value| of at most 1 without its sign, rounded to nearest even.
inline unsigned EncodeSmall(Small type, float magnitude) {
  const unsigned bits = __builtin_bit_cast(unsigned, magnitude);
  const int least = 1 - type.bias;  // Exponent of subnormal numbers.
  int exponent = static_cast<int>(bits >> 23) - 127;
  if (exponent < least) exponent = least;
  const float scaled = magnitude * PowerOfTwo(type.fraction - exponent);
  auto units = static_cast<unsigned>(scaled);
  const float rest = scaled - static_cast<float>(units);
  if (rest > 0.5f || (rest == 0.5f && units % 2 == 1)) ++units;
  return (static_cast<unsigned>(exponent - least) << type.fraction) + units;
}

inline float DecodeSmall(Small type, unsigned magnitude) {
  const auto exponent = static_cast<int>(magnitude >> type.fraction);
  const unsigned fraction = magnitude & ((1u << type.fraction) - 1);
  if (type.bias == 15 && exponent == 31) {  // Infinite, or not a number.
    return __builtin_bit_cast(float, 0x7f800000u | fraction);
  }
  if (exponent == 0) {
    return static_cast<float>(fraction) *
           PowerOfTwo(1 - type.bias - type.fraction);
  }
  return static_cast<float>(fraction + (1u << type.fraction)) *
         PowerOfTwo(exponent - type.bias - type.fraction);
}

// The metadata of a chunk for `choice` in [0, 6).
constexpr unsigned TwoOfFour(unsigned choice) {
  return 0xEDC984u >> 4 * choice & 0xf;
}

// Bits of an element for `value` in (-1, 1): rounded to nearest even; integers
// spread it over their range.
inline unsigned Encode(Element element, float value) {
  const unsigned bits = __builtin_bit_cast(unsigned, value);
  const unsigned sign = bits >> 31;
  const float magnitude = value < 0 ? -value : value;
  switch (element) {
    case Element::kBf16:
      return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    case Element::kF16:
      return sign << 15 | EncodeSmall(SmallOf(element), magnitude);
    case Element::kE4m3:
    case Element::kE5m2:
      return sign << 7 | EncodeSmall(SmallOf(element), magnitude);
    case Element::kS8:
      return static_cast<unsigned>(static_cast<int>(value * 128.0f)) & 0xff;
    case Element::kU8:
    case Element::kBits:
      return static_cast<unsigned>((value + 1.0f) * 128.0f) & 0xff;
    case Element::kS32:
      return static_cast<unsigned>(static_cast<int>(value * 1000.0f));
    case Element::kTwoOfFour: {
      const auto choices = static_cast<unsigned>((value + 1.0f) * 18.0f);
      return TwoOfFour(choices % 6) | TwoOfFour(choices / 6 % 6) << 4;
    }
    case Element::kOneOfTwo: {
      const auto choices = static_cast<unsigned>((value + 1.0f) * 2.0f);
      return (choices % 2 ? 0xEu : 0x4u) | (choices / 2 % 2 ? 0xE0u : 0x40u);
    }
    case Element::kF32:
      break;
  }
  return bits;
}

// Of kBits, the number of the byte.
inline float Decode(Element element, unsigned bits) {
  switch (element) {
    case Element::kBf16:
      return __builtin_bit_cast(float, bits << 16);
    case Element::kF16: {
      const float value =
          (bits & 0x7c00) == 0x7c00
              ? __builtin_bit_cast(float, 0x7f800000u | (bits & 0x3ff) << 13)
              : DecodeSmall(SmallOf(element), bits & 0x7fff);
      return bits & 0x8000 ? -value : value;
    }
    case Element::kE4m3:
      if ((bits & 0x7f) == 0x7f) {
        return __builtin_bit_cast(float, 0x7fc00000u);
      }
      [[fallthrough]];
    case Element::kE5m2: {
      const float value = DecodeSmall(SmallOf(element), bits & 0x7f);
      return bits & 0x80 ? -value : value;
    }
    case Element::kS8:
      return static_cast<float>(static_cast<signed char>(bits & 0xff));
    case Element::kU8:
    case Element::kBits:
    case Element::kTwoOfFour:
    case Element::kOneOfTwo:
      return static_cast<float>(bits & 0xff);
    case Element::kS32:
      return static_cast<float>(static_cast<int>(bits));
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
