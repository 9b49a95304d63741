// What kernels receive at launch. Included by the device code and by the host
// code that fills it, so that there is one definition.
#pragma once

#include "common/geometry.h"

namespace gemmd {

// Opaque tensor map of the tensor memory accelerator, encoded by the driver.
struct alignas(64) TensorMap {
  unsigned char bytes[128];
};

// Scales by block: of X one for each line and 128 of k, of Y one for 128 lines
// and 128 of k. Pitches in values; X's lines run along k, Y's along P's
// columns.
struct BlockScales {
  const float* x;
  const float* y;
  long long x_pitch;
  long long y_pitch;
};

// Weights in fragment order.
struct Weights {
  int blocks;       // Of 64 lines.
  int stage_shift;  // 2^stage_shift stages have the same groups.
  // Stages, a power of two, of which the sums are scaled together.
  int promoted_stages;
  // 0, of which compilers know nothing: see ptx::Hold.
  unsigned unknown_zero;
};

// The last units, shared out to the stage, so that CTAs end together: each has
// as many stages of them, those of neighbours follow each other, and a tile
// that two CTAs share is begun by one and continued by the other, which changes
// no bit of it. Behind its rounds of whole units each CTA (or cluster) begins
// with its part of the tile that another one continues, and ends with the one
// that another one has begun: that is done by then, as each has at least a
// whole unit's stages. It is the one before it, which the device starts no
// later, so that nobody waits for one that waits. In this order those that do
// not work on a whole unit in between are at the same k, or one distance behind
// it, so that they read the same of operands at the same time.
struct Balance {
  int first_unit;  // As many as there are, where none are shared out.
  int rounds;      // Whole units of each CTA before those.
  int stages;      // Of each CTA; the first `longer` have one more.
  int longer;
  int least;  // A part of a unit that is shorter is left to the other.
  Divisor unit_stages;
  void* sums;  // That are passed on, kTileM x kTileN words of 32 bits a CTA.
  // kPassFlags a CTA: whether a warp's sums are there. All are 0 before a
  // launch and after it.
  unsigned* flags;
};

// What the epilogue's steps need; only what the config's steps read is set.
// Rows and columns are those of P.
struct EpilogueArguments {
  int rows;
  int columns;
  float alpha;
  float beta;
  // A value for each row of P, or for each column, or one for all.
  const float* row_scale;
  const float* column_scale;
  const float* bias;
  const float* d_scale;  // One value.
  unsigned* amax;        // Bits of the greatest |value|; zero at first.
  // Set bits of every line of X, and of Y; and lines from one P to the next.
  const int* row_bits;
  const int* column_bits;
  long long row_bits_matrix;
  long long column_bits_matrix;
  // C where the copy engine does not stage it: lines of D's order.
  const void* c;
  long long c_pitch;   // Elements.
  long long c_matrix;  // Elements from one matrix of a batch to the next.
};

// The kernel computes P = epilogue(X Y^T), where X has lines along the
// instruction's m and Y along its n. Which of A and B is X is the planner's
// choice. A batch has many P. All matrices of an operand lie in one tensor map
// of three dimensions.
struct Arguments {
  TensorMap x;
  TensorMap metadata;  // Of a sparse X, or the groups of weights.
  TensorMap y;
  TensorMap c;          // Encoded only when the config stages C.
  TensorMap d;          // The partial products of a split product.
  TensorMap auxiliary;  // Encoded only when the config writes it.
  Raster raster;
  // Where the last tiles begin at most: LastTileLine.
  int last_row;
  int last_column;
  // Whether CTAs of the next grid may take SMs as soon as this one's have
  // theirs, and not only as it ends.
  int starts_next_early;
  // A unit of work is a tile of one P over one part of k.
  int units;
  // So many places further each worker, a CTA or cluster, has its unit in every
  // next round: no more than there are workers, 0 where units are balanced.
  int turn;
  int stages;  // Of one pass over k, 128 bytes of a line each.
  // Of a stage, in lines of tiles that are longer than whole matrices: not
  // copied, so that what is multiplied there is arbitrary, and written nowhere.
  int absent_bytes;
  // Passes over k: one, or one for each pair of planes of X and Y (operands
  // that are sums of several matrices). Two bits a pass name the plane.
  int passes;
  unsigned x_planes;
  unsigned y_planes;
  // Matrices in a plane of X and of Y: one when broadcast, else one for each P.
  int x_matrices;
  int y_matrices;
  // The parts of k that different CTAs sum (split-k), or the interleaved
  // consumers of each; else 1. Part s takes stages s, s + splits, ...: the
  // first `longer_parts` parts one more than the others. Of split-k part s of
  // P number p is matrix p * splits + s of `d`; kernels/reduce.cu adds the
  // parts up.
  Divisor splits;
  int part_stages;
  int longer_parts;
  Balance balance;
  BlockScales scales;  // Only where the config is block-scaled.
  Weights weights;     // Only where X is widened.
  EpilogueArguments epilogue;
};

// Of a launch of many products, all of the config's family.
struct GroupedArguments {
  const Arguments* products;  // In device memory.
  int units;                  // Of all products, one product after the other.
  // Of each product, ascending; of those that there are not, more than units.
  int first_unit[kMaxGroups];
};

// Argument of the reduction that follows a split product, on lines of D. With
// no parts at all it makes D of an empty product.
struct ReduceArguments {
  const void* partials;  // f32, or s32 when sums are.
  void* d;
  void* auxiliary;
  long long partials_pitch;  // Pitches in elements; multiples of 4.
  long long pitch;           // Of D.
  Divisor lines;             // Of a matrix.
  Divisor quads;             // Of four elements, in a line.
  int matrices;
  int splits;
  int lane_bits;  // 2^lane_bits lanes add up the same elements.
  int starts_next_early;  // As of the product.
  EpilogueArguments epilogue;
};

inline constexpr int kReduceElements = 4;  // Of a group of lanes at a time.
inline constexpr int kReduceLeastLaneBits = 2;  // If any: four lanes.
inline constexpr int kReduceLaneBits = 5;       // At most: a warp.
inline constexpr int kReduceThreads = 256;      // Per CTA; any grid will do.

// Lines of bits, and where the number of set bits of each is written. Sizes in
// bytes.
struct LineBits {
  const void* from;
  int* to;
  long long pitch;
  long long width;
  long long lines;
};

// Argument of kernels/line_bits.cu.
struct LineBitsArguments {
  LineBits x;
  LineBits y;
};

inline constexpr int kLineBitsThreads = 256;  // Per CTA; any grid will do.

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
