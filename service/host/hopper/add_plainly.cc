#include <algorithm>
#include <cmath>
#include <limits>

#include "service/host/hopper/add.h"

namespace gemmd::host {
namespace {

// Toward zero, to `bits` of fraction but not below the last bit of f32.
double Truncate(double value, int bits) {
  if (value == 0) return 0;
  const int unit = std::max(std::ilogb(value) - bits, kLastBitOfF32);
  return std::ldexp(std::trunc(std::ldexp(value, -unit)), unit);
}

double RoundToF16(double value) {
  if (value == 0) return 0;
  const int unit = std::max(std::ilogb(value), -14) - 10;
  return std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
}

// `value` as the accumulator holds it; zero is positive.
double Accumulated(const Adder& adder, double value) {
  const bool f16 = adder.sum == Adder::Sum::kF16;
  const double sum = f16 ? RoundToF16(value) : Truncate(value, adder.sum_bits);
  if (std::abs(sum) >= (f16 ? 0x1p16 : 0x1p128)) {
    return std::copysign(std::numeric_limits<double>::infinity(), sum);
  }
  return sum + 0.0;
}

// One instruction, for one sum: `a` and `b` are its first factors, those of b
// kPanel apart.
double AddProducts(const Adder& adder, const Factors& a, const Factors& b,
                   double old) {
  int top = std::max<int>(kLeastAlignment, Exponent(old, adder.least_exponent()));
  double plain = old;
  for (int p = 0; p < adder.products; ++p) {
    top = std::max(top, a.exponents[p] + b.exponents[p * b.pitch]);
    plain += a.values[p] * b.values[p * b.pitch];
  }
  // Infinite or NaN, as there is a factor or a sum that is.
  if (!std::isfinite(plain)) return plain;
  const int shift = adder.kept_bits - top;
  double sum = std::trunc(std::ldexp(old, shift));
  for (int p = 0; p < adder.products; ++p) {
    const double product = a.values[p] * b.values[p * b.pitch];
    sum += std::trunc(std::ldexp(product, shift));
  }
  return Accumulated(adder, std::ldexp(sum, -shift));
}

}  // namespace

void AddPlainly(const Adder& adder, const Factors& a, const Factors& b,
                int instructions, const PanelSums& sums) {
  for (int64_t i = 0; i < sums.rows; ++i) {
    for (int j = 0; j < kPanel; ++j) {
      double& sum = sums.values[i * sums.pitch + j];
      for (int step = 0; step < instructions; ++step) {
        const int64_t k = static_cast<int64_t>(step) * adder.products;
        const int64_t in_a = i * a.pitch + k;
        const int64_t in_b = k * b.pitch + j;
        sum = AddProducts(adder, {a.values + in_a, a.exponents + in_a, a.pitch},
                          {b.values + in_b, b.exponents + in_b, b.pitch}, sum);
      }
    }
  }
}

}  // namespace gemmd::host
