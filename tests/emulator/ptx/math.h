// Emulated twin of templates/ptx/math.h.
#pragma once

#include <cmath>

namespace gemmd::ptx {

inline float Exp(float x) { return std::exp(x); }
inline float MultiplyAdd(float a, float b, float c) {
  return std::fma(a, b, c);
}

}  // namespace gemmd::ptx
