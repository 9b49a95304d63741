// Functions of f32, to a few units in the last place where not said otherwise.
#pragma once

namespace gemmd::ptx {

inline float Exp(float x) { return expf(x); }
// a * b + c, rounded once.
inline float MultiplyAdd(float a, float b, float c) { return fmaf(a, b, c); }

}  // namespace gemmd::ptx
