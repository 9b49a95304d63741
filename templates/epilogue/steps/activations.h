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

// x * Phi(x), Phi the distribution function of the normal distribution.
struct GeluErf : Step {
  void Apply(const EpilogueArguments&, Element<float>& element) {
    constexpr float kRootOfHalf = 0.70710678f;
    const float x = element.value;
    const float twice = ptx::Erfc(-kRootOfHalf * x);
    element.value = twice == 0.0f ? -0.0f : 0.5f * x * twice;
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
