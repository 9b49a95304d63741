// Emulated twin of templates/ptx/convert.h, by the conversions of the host
// device.
#pragma once

#include <bit>

#include "common/types.h"
#include "service/host/fp8.h"
#include "service/host/numbers.h"
#include "tests/emulator/machine/isa.h"

namespace gemmd::ptx {

inline float AsFloat(uint32 bits) { return std::bit_cast<float>(bits); }
inline uint32 BitsOf(float value) { return std::bit_cast<uint32>(value); }

// The bits of one element.
template <typename T>
uint32 NarrowBits(float value) {
  emulator::isa::CheckFloat(value);
  if constexpr (kSame<T, BFloat16>) return host::ToBf16(value);
  if constexpr (kSame<T, Float16>) return host::ToF16(value);
  if constexpr (kSame<T, E4m3>) return host::ToFp8<host::kE4m3>(value);
  if constexpr (kSame<T, E5m2>) return host::ToFp8<host::kE5m2>(value);
  if constexpr (kSame<T, S8>) {
    return static_cast<uint8>(host::ToInteger<signed char>(value));
  }
  if constexpr (kSame<T, U8>) return host::ToInteger<unsigned char>(value);
}

template <typename T>
uint32 Pack(float first, float second) {
  return NarrowBits<T>(first) | NarrowBits<T>(second) << 8 * sizeof(T);
}

struct Pair {
  float first;
  float second;
};

template <typename T>
Pair Unpack(uint32 packed) {
  const auto low = static_cast<uint16>(packed);
  const auto high = static_cast<uint16>(packed >> 16);
  if constexpr (kSame<T, BFloat16>) {
    return {host::FromBf16(low), host::FromBf16(high)};
  } else {
    return {host::FromF16(low), host::FromF16(high)};
  }
}

template <typename T>
uint32 Subtract(uint32 from, uint32 what) {
  const Pair a = Unpack<T>(from);
  const Pair b = Unpack<T>(what);
  return Pack<T>(a.first - b.first, a.second - b.second);
}

inline float Widen(float value) { return value; }
inline int Widen(int value) { return value; }
inline float Widen(BFloat16 value) { return host::FromBf16(value.bits); }
inline float Widen(Float16 value) { return host::FromF16(value.bits); }
inline float Widen(E4m3 value) {
  return host::FromFp8<host::kE4m3>(value.bits);
}
inline float Widen(E5m2 value) {
  return host::FromFp8<host::kE5m2>(value.bits);
}
inline float Widen(S8 value) { return static_cast<signed char>(value.bits); }
inline float Widen(U8 value) { return value.bits; }

template <typename T>
uint32 WidenPair(uint32 e4m3) {
  return Pack<T>(Widen(E4m3{static_cast<uint8>(e4m3)}),
                 Widen(E4m3{static_cast<uint8>(e4m3 >> 8)}));
}

template <typename T>
inline T Narrow(float value) {
  return {static_cast<decltype(T::bits)>(NarrowBits<T>(value))};
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
