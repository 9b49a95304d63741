// Activations. NaN stays NaN.
#pragma once

#include "epilogue/steps/step.h"
#include "ptx/math.h"

namespace gemmd {

struct Relu : Step {
  void Apply(const EpilogueArguments&, Element<float>& element) {
    if (element.value < 0.0f) element.value = 0.0f;
  }
};

// The complementary error function of z, 0 <= z <= 11: an exponential times a
// polynomial in (z - 4) / (z + 4), fitted to double precision; at most 3 units
// in the last place off. The library's needs more registers than there are
// beside the sums.
inline float Erfc(float z) {
  constexpr float kCoefficients[] = {
      4.567562602e-3f, -1.781008765e-2f, 3.670493513e-2f, -6.578392535e-2f,
      9.395600110e-2f, -1.011052206e-1f, 6.807051599e-2f, 1.538271271e-2f,
      -1.396203637e-1f};
  const float t = (z - 4.0f) / (z + 4.0f);
  float sum = 0.0f;
#pragma unroll
  for (const float coefficient : kCoefficients) {
    sum = ptx::MultiplyAdd(sum, t, coefficient);
  }
  sum = ptx::MultiplyAdd(sum, t, 1.232995033f);
  const float square = z * z;
  const float lost = ptx::MultiplyAdd(z, z, -square);
  const float power = ptx::Exp(-square);
  return sum / (1.0f + 2.0f * z) * ptx::MultiplyAdd(-lost, power, power);
}

// x * Phi(x), Phi the distribution function of the normal distribution.
struct GeluErf : Step {
  void Apply(const EpilogueArguments&, Element<float>& element) {
    constexpr float kRootOfHalf = 0.70710678f;
    constexpr float kFar = 15.0f;  // Where Phi of -x is 0.
    const float x = element.value;
    const float distance = x < 0.0f ? -x : x;
    const float beyond =
        Erfc(kRootOfHalf * (distance < kFar ? distance : kFar));
    const float twice = x < 0.0f ? beyond : 2.0f - beyond;
    element.value = x < -kFar ? -0.0f : 0.5f * x * twice;
  }
};

// x / (1 + e^-y), without cancellation. Minus infinity gives the limit.
inline float TimesLogistic(float x, float y) {
  constexpr float kMost = 3.40282347e38f;
  const float e = ptx::Exp(-y);
  return e > kMost ? -0.0f : x / (1.0f + e);
}

// Its approximation by x * (1 + tanh(y)) / 2 = x / (1 + e^-2y).
struct GeluTanh : Step {
  void Apply(const EpilogueArguments&, Element<float>& element) {
    constexpr float kTwiceRootOfTwoByPi = 1.59576912f;
    constexpr float kCubic = 0.044715f;
    const float x = element.value;
    element.value =
        TimesLogistic(x, kTwiceRootOfTwoByPi * (x + kCubic * x * x * x));
  }
};

// x times its logistic function.
struct Silu : Step {
  void Apply(const EpilogueArguments&, Element<float>& element) {
    element.value = TimesLogistic(element.value, element.value);
  }
};

}  // namespace gemmd
