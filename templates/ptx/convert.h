// Conversions between f32 and 16-bit element types, to nearest even.
#pragma once

#include "common/types.h"

namespace gemmd::ptx {

// Two elements in one register, the first in the low half.
template <typename T>
uint32 Pack(float first, float second);

template <>
inline uint32 Pack<BFloat16>(float first, float second) {
  uint32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
  return packed;
}

template <>
inline uint32 Pack<Float16>(float first, float second) {
  uint32 packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
  return packed;
}

struct Pair {
  float first;
  float second;
};

template <typename T>
Pair Unpack(uint32 packed);

template <>
inline Pair Unpack<BFloat16>(uint32 packed) {
  return {__uint_as_float(packed << 16), __uint_as_float(packed & 0xffff0000)};
}

template <>
inline Pair Unpack<Float16>(uint32 packed) {
  Pair pair;
  asm("{\n"
      ".reg .b16 low, high;\n"
      "mov.b32 {low, high}, %2;\n"
      "cvt.f32.f16 %0, low;\n"
      "cvt.f32.f16 %1, high;\n"
      "}"
      : "=f"(pair.first), "=f"(pair.second)
      : "r"(packed));
  return pair;
}

inline float AsFloat(uint32 bits) { return __uint_as_float(bits); }

// One element to f32, exactly.
inline float Widen(float value) { return value; }
inline float Widen(BFloat16 value) { return AsFloat(uint32{value.bits} << 16); }
inline float Widen(Float16 value) { return Unpack<Float16>(value.bits).first; }

// One element from f32, to nearest even.
template <typename T>
inline T Narrow(float value) {
  return {static_cast<uint16>(Pack<T>(value, 0.0f))};
}

template <>
inline float Narrow<float>(float value) {
  return value;
}

}  // namespace gemmd::ptx
