// How Hopper's tensor core adds, to the last bit.
//
// One instruction adds its products, which are exact, and the old sum at once:
// all are aligned to the greatest exponent among them, each is cut off toward
// zero some bits below it, the rest is added exactly, and the result is
// brought to the accumulator. The exponent of a product is the sum of those of
// its factors: it is not normalised, and a subnormal factor has the least
// exponent of its type; so has a subnormal sum in f16. Found by experiment on an
// H200 and confirmed there on this project's kernels and the vendor's, down to the least exponents and
// beyond f32, where sums are infinite. Plain data and pure functions.
#ifndef GEMMD_SERVICE_HOST_HOPPER_ADDER_H_
#define GEMMD_SERVICE_HOST_HOPPER_ADDER_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "jit/problem/data_type.h"
#include "jit/problem/instruction.h"

namespace gemmd::host {

// Exponent of zero; that of a product with zero is twice as low at least.
inline constexpr int kNoExponent = -8192;
// Exponents of the greatest infinities and NaNs that factors may be.
inline constexpr int kInfiniteExponent = 128;
// Nothing is aligned below this, which is near the last bit of f32.
inline constexpr int kLeastAlignment = -133;
// Exponents of the least normal f32 and of its last bit.
inline constexpr int kLeastF32 = -126;
inline constexpr int kLastBitOfF32 = -149;

// The arithmetic of one instruction.
struct Adder {
  enum class Sum : uint8_t {
    kF32,  // Truncated to `sum_bits` of fraction; beyond f32 infinity.
    kF16,  // Rounded to nearest even.
  };
  int products = 0;   // That are added at once.
  int kept_bits = 0;  // Of fraction, below the greatest exponent.
  Sum sum = Sum::kF32;
  int sum_bits = 0;

  // Exponent of the smallest normal sum: a subnormal one is aligned by it.
  int least_exponent() const { return sum == Sum::kF16 ? -14 : kLeastF32; }
};

// That of an instruction on floating types.
std::optional<Adder> AdderOf(const jit::Instruction& instruction);

// Exponent of the smallest normal number of a floating type; of f32 also that
// of tf32.
int LeastExponent(jit::DataType type);

// Of a factor of a product. `least` is that of its type. No factor is
// subnormal in f64.
inline int16_t Exponent(double factor, int least) {
  const int biased = static_cast<int>(std::bit_cast<uint64_t>(factor) >> 52);
  const int exponent = (biased & 0x7ff) - 1023;
  if (exponent == -1023) return kNoExponent;
  return static_cast<int16_t>(std::clamp(exponent, least, kInfiniteExponent));
}

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_HOPPER_ADDER_H_
