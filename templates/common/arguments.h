// What a GEMM kernel receives at launch. Included by the device code and by
// the host code that fills it, so that there is one definition.
#pragma once

namespace gemmd {

// Opaque tensor map of the tensor memory accelerator, encoded by the driver.
struct alignas(64) TensorMap {
  unsigned char bytes[128];
};

// The kernel computes P = alpha * X Y^T + beta * C, where X has `rows` lines
// along the instruction's m and Y has `columns` along its n. Which of A and B
// is X is the planner's choice.
struct Arguments {
  TensorMap x;
  TensorMap y;
  TensorMap c;  // Encoded only when the config reads C and does not split k.
  TensorMap d;
  int rows;
  int columns;
  int depth;         // k; 0 gives beta * C and reads neither X nor Y.
  int raster_group;  // Tiles along rows that share one pass over columns.
  float alpha;
  float beta;
  // Split-k: the parts of k that different CTAs sum, 1 without. Part s goes to
  // lines s * partial_lines and following of the matrix that `d` describes;
  // kernels/reduce.cu adds them up.
  int splits;
  int partial_lines;
};

// Argument of the reduction that follows a split product:
//   D = alpha * (sum of partial products) + beta * C, on lines of `width`.
struct ReduceArguments {
  const float* partials;  // `splits` matrices of partial_lines lines.
  const void* c;          // Read only when the config reads C.
  void* d;
  long long partials_pitch;  // Pitches in elements; multiples of 4.
  long long pitch;           // Of C and D.
  int width;
  int lines;
  int splits;
  int partial_lines;
  float alpha;
  float beta;
};

inline constexpr int kReduceThreads = 256;  // Per CTA; any grid will do.

// Argument of kernels/repitch.cu. Sizes in bytes.
struct RepitchArguments {
  const void* from;
  void* to;
  long long from_pitch;
  long long to_pitch;
  long long width;
  long long lines;
};

inline constexpr int kRepitchThreads = 256;  // Per CTA; any grid will do.

}  // namespace gemmd
