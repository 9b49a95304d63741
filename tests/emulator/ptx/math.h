// Emulated twin of templates/ptx/math.h.
#pragma once

#include <cmath>

namespace gemmd::ptx {

inline float Erfc(float x) { return std::erfc(x); }
inline float Tanh(float x) { return std::tanh(x); }
inline float Exp(float x) { return std::exp(x); }

}  // namespace gemmd::ptx
