// How the elements of weights become those of an instruction: integers exactly,
// their zero points subtracted.
//
// Small integers are put into the mantissa of a power of two, whose last bit
// then counts ones, and the power is subtracted.
#pragma once

#include "common/types.h"
#include "ptx/convert.h"
#include "ptx/permute.h"

namespace gemmd {

// A number in both halves of a register, and such a power of two.
constexpr uint32 Twice(uint32 half) { return half << 16 | half; }
template <typename Element>
inline constexpr uint32 kPower = kSame<Element, BFloat16> ? 0x4300 : 0x6400;
template <typename Element>
inline constexpr float kPowerValue = kSame<Element, BFloat16> ? 128 : 1024;

// How elements of From are widened. To() widens what a thread has of an
// instruction's X: `weights` holds the elements of its four registers
// (kernels/prepare/fragments.cu), `zero` the zero points of rows r and r + 8,
// both halves kZeroBase more.
template <typename From, typename Element, bool kZeroPoints>
struct Widening;

template <typename Element, bool kZeroPoints>
struct Widening<U4, Element, kZeroPoints> {
  static constexpr int kWords = 1;  // For an instruction.
  static constexpr float kZeroBase = kPowerValue<Element>;

  static void To(uint32 (&x)[4], const uint32* weights, const uint32 (&zero)[2],
                 uint32 unknown_zero) {
    // Not a constant: one instruction takes no two of them.
    const uint32 power = Twice(kPower<Element>) ^ unknown_zero;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32 raised = (weights[0] >> 4 * i & Twice(0xf)) ^ power;
      x[i] = ptx::Subtract<Element>(
          raised, kZeroPoints ? zero[i % 2] : Twice(kPower<Element>));
    }
  }
};

// Two's complement with its sign flipped counts from the least.
template <typename Element, bool kZeroPoints>
struct Widening<S4, Element, kZeroPoints> {
  static constexpr int kWords = 1;
  static constexpr float kZeroBase = 0;

  static void To(uint32 (&x)[4], const uint32* weights, const uint32 (&zero)[2],
                 uint32 unknown_zero) {
    constexpr uint32 kLeast = Twice(kPower<Element> | 8);
    const uint32 least = kLeast ^ unknown_zero;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32 raised = (weights[0] >> 4 * i & Twice(0xf)) ^ least;
      x[i] = ptx::Subtract<Element>(raised, kLeast);
      if constexpr (kZeroPoints) {
        x[i] = ptx::Subtract<Element>(x[i], zero[i % 2]);
      }
    }
  }
};

// The pair of bytes of register i, each in a half of a register.
inline uint32 BytesOf(const uint32* weights, int i) {
  return ptx::PermuteBytes(weights[i / 2], 0, i % 2 == 0 ? 0x4140 : 0x4342);
}

template <bool kZeroPoints>
struct Widening<S8, Float16, kZeroPoints> {
  static constexpr int kWords = 2;
  static constexpr float kZeroBase = 0;

  static void To(uint32 (&x)[4], const uint32* weights, const uint32 (&)[2],
                 uint32) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      constexpr uint32 kSign = 0x80;
      x[i] = ptx::Subtract<Float16>(
          BytesOf(weights, i) ^ Twice(kPower<Float16> | kSign),
          Twice(kPower<Float16> | kSign));
    }
  }
};

// Seven bits fit the mantissa. The sign, at the exponent's last bit, doubles
// the power that is subtracted.
template <bool kZeroPoints>
struct Widening<S8, BFloat16, kZeroPoints> {
  static constexpr int kWords = 2;
  static constexpr float kZeroBase = 0;

  static void To(uint32 (&x)[4], const uint32* weights, const uint32 (&)[2],
                 uint32 unknown_zero) {
    const uint32 power = Twice(kPower<BFloat16>) ^ unknown_zero;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32 bytes = BytesOf(weights, i);
      x[i] = ptx::Subtract<BFloat16>(bytes & Twice(0x7f) ^ power,
                                     bytes & Twice(0x80) ^ power);
    }
  }
};

template <typename Element, bool kZeroPoints>
struct Widening<E4m3, Element, kZeroPoints> {
  static constexpr int kWords = 2;
  static constexpr float kZeroBase = 0;

  static void To(uint32 (&x)[4], const uint32* weights, const uint32 (&)[2],
                 uint32) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[i] = ptx::WidenPair<Element>(weights[i / 2] >> 16 * (i % 2));
    }
  }
};

}  // namespace gemmd
