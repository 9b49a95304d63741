// What the kernels that derive a form of an operand receive at launch, and how
// they divide their work. Included by the device code and by the host code that
// launches it.
#pragma once

namespace gemmd {

// Weights (kernels/prepare/fragments.cu), and the groups of their lines.
struct WeightGroups {
  bool along_k;              // Lines run along k; else across, without groups.
  long long groups;          // Of a line.
  long long written;         // The same, or one more.
  int stage_groups;          // Those that lie together.
  long long scales_at;       // Bytes from the start of a line.
  long long zero_points_at;  // 0 where there are none.
};

// `matrices` of `lines` lines of `width` elements, one behind the other, become
// as many in another form (kernels/prepare/split.cu: three planes of each).
// Strides are bytes. Matrices start, and their lines follow each other, at
// multiples of 16 bytes; whole words of 16 bytes are read and written.
struct PrepareArguments {
  const void* from;
  void* to;
  long long from_pitch;
  long long to_pitch;
  long long from_matrix;  // From one matrix to the next.
  long long to_matrix;    // From one matrix or plane to the next.
  long long width;
  long long lines;
  long long matrices;
  WeightGroups weights;  // `width` is along k, and `lines` across.
};

// Of `size`, that hold `count`.
constexpr long long PiecesOf(long long count, int size) {
  return (count + size - 1) / size;
}

inline constexpr int kPrepareThreads = 128;  // Per CTA; any grid will do.

// A thread reads a word of 16 bytes from each of kLines lines and writes the
// columns that they hold. A warp reads kAcross words side by side, and a CTA
// kCtaWords, from kCtaGroups groups of kLines lines.
template <int kBits>  // Of an element: 1, 8 or 32.
struct TransposeShape {
  static constexpr int kElements = 128 / kBits;  // Of a word.
  static constexpr int kLines = kBits == 1 ? 32 : kElements;
  static constexpr int kAcross = kBits == 32 ? 8 : kBits == 8 ? 4 : 2;
  static constexpr int kDown = 32 / kAcross;
  static constexpr int kWarpsAcross = kBits == 8 ? 4 : 2;
  static constexpr int kWarpsDown = kPrepareThreads / 32 / kWarpsAcross;
  static constexpr int kCtaWords = kWarpsAcross * kAcross;
  static constexpr int kCtaGroups = kWarpsDown * kDown;

  // Of one matrix. Lines are read by groups that fill whole words of what is
  // written.
  static constexpr long long Words(const PrepareArguments& a) {
    return PiecesOf(a.width, kElements);
  }
  static constexpr long long Groups(const PrepareArguments& a) {
    return PiecesOf(a.lines, kElements) * (kElements / kLines);
  }
  static constexpr long long CtaTiles(const PrepareArguments& a) {
    return PiecesOf(Words(a), kCtaWords) * PiecesOf(Groups(a), kCtaGroups);
  }
};

// The metadata of a sparse matrix, in the order that wgmma.mma_async.sp takes
// them in: `width` counts chunks, the four bits that describe some elements of
// a line. For every 64 lines one is written: for each stage, one or two words
// (kernels/prepare/metadata.cu) for each of the kPrepareThreads threads that
// multiply it. Written lines are as many as the largest tile may read.
constexpr long long MetadataLines(long long lines) {
  return PiecesOf(lines, 256) * 4;
}

// Planes of a split matrix: high, middle and low parts of each element.
inline constexpr int kSplitPlanes = 3;
// Elements that a thread splits at once: a word of each plane.
inline constexpr int kSplitElements = 8;

}  // namespace gemmd
