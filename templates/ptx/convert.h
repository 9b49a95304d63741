// Conversions between f32 and element types: to nearest even; 8-bit types
// clamp to their largest values, integers take NaN as zero.
#pragma once

#include "common/types.h"

namespace gemmd::ptx {

// Two elements in one register, the first in the low bits.
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

template <>
inline uint32 Pack<E4m3>(float first, float second) {
  uint16 packed;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
      : "=h"(packed)
      : "f"(second), "f"(first));
  return packed;
}

template <>
inline uint32 Pack<E5m2>(float first, float second) {
  uint16 packed;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;"
      : "=h"(packed)
      : "f"(second), "f"(first));
  return packed;
}

template <>
inline uint32 Pack<S8>(float first, float second) {
  uint32 low, high;
  asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(low) : "f"(first));
  asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(high) : "f"(second));
  return (low & 0xff) | (high & 0xff) << 8;
}

template <>
inline uint32 Pack<U8>(float first, float second) {
  uint32 low, high;
  asm("cvt.rni.sat.u8.f32 %0, %1;" : "=r"(low) : "f"(first));
  asm("cvt.rni.sat.u8.f32 %0, %1;" : "=r"(high) : "f"(second));
  return (low & 0xff) | (high & 0xff) << 8;
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

// The difference of pairs, each rounded.
template <typename T>
inline uint32 Subtract(uint32 from, uint32 what) {
  uint32 difference;
  if constexpr (kSame<T, BFloat16>) {
    asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(difference) : "r"(from), "r"(what));
  } else {
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(from), "r"(what));
  }
  return difference;
}

inline float AsFloat(uint32 bits) { return __uint_as_float(bits); }
inline uint32 BitsOf(float value) { return __float_as_uint(value); }

// One element to f32, exactly; s32 stays what it is.
inline float Widen(float value) { return value; }
inline int Widen(int value) { return value; }
inline float Widen(BFloat16 value) { return AsFloat(uint32{value.bits} << 16); }
inline float Widen(Float16 value) { return Unpack<Float16>(value.bits).first; }
inline float Widen(S8 value) { return static_cast<signed char>(value.bits); }
inline float Widen(U8 value) { return value.bits; }

inline float Widen(E4m3 value) {
  uint32 halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;"
      : "=r"(halves)
      : "h"(static_cast<uint16>(value.bits)));
  return Unpack<Float16>(halves).first;
}

// Two of them, in the low half, as a pair.
template <typename T>
inline uint32 WidenPair(uint32 e4m3) {
  uint32 halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;"
      : "=r"(halves)
      : "h"(static_cast<uint16>(e4m3)));
  if constexpr (kSame<T, Float16>) return halves;
  const Pair pair = Unpack<Float16>(halves);
  return Pack<T>(pair.first, pair.second);
}

inline float Widen(E5m2 value) {
  // The upper half of an f16.
  return Unpack<Float16>(uint32{value.bits} << 8).first;
}

// One element from f32; s32 stays what it is.
template <typename T>
inline T Narrow(float value) {
  return {static_cast<decltype(T::bits)>(Pack<T>(value, 0.0f))};
}

template <>
inline float Narrow<float>(float value) {
  return value;
}

template <typename T>
inline T Narrow(int value) {
  static_assert(kSame<T, int>);
  return value;
}

}  // namespace gemmd::ptx
