// Arguments of the benchmark's own kernels, for host and device. Lines are
// `pitch` bytes apart.
#pragma once

namespace gemmd::bench {

inline constexpr int kThreads = 256;  // Per CTA, of every kernel here.

// fill.cu: element (line, column) = RandomValue(seed, line * width + column).
struct FillArguments {
  void* to;
  long long pitch;
  long long width;  // Elements.
  long long lines;
  unsigned seed;
  Element element;
  unsigned last_mask;  // Bits that the last byte of a line may have.
};

// compare.cu: adds to `mismatches` the elements of which
// |x - y| <= absolute + relative * max(|x|, |y|) is not true, and raises
// `largest` to the largest difference (bits of an f32; NaN counts as
// infinite).
struct CompareArguments {
  const void* x;
  const void* y;
  long long x_pitch;
  long long y_pitch;
  long long width;  // Elements.
  long long lines;
  Element element;
  float absolute;
  float relative;
  unsigned long long* mismatches;
  unsigned* largest;
};

// foreign.cu: adds to `count` the bytes between `width` and `pitch` of every
// line that differ from `expected`.
struct ForeignArguments {
  const unsigned char* from;
  long long pitch;
  long long width;  // Bytes.
  long long lines;
  unsigned char expected;
  unsigned long long* count;
};

// ceiling.cu: each warpgroup issues kCeilingInstructions of m64n256k16 per
// iteration and writes a sum per thread.
struct CeilingArguments {
  float* sums;
  int iterations;
  unsigned seed;
};

inline constexpr int kCeilingN = 256;
inline constexpr int kCeilingInstructions = 16;
inline constexpr int kCeilingSharedBytes = 4 * (2 * 64 + 256) * 128;

}  // namespace gemmd::bench
