// The arithmetic that host and device both do: how a config becomes sizes of
// tiles, slabs, stages and shared memory, and how a number names a tile. One
// definition: the planner includes this header too. It uses nothing but the
// language.
#pragma once

namespace gemmd {

// Which dimension of an operand tile is contiguous in memory.
enum class Major : unsigned char { kK, kMn };

enum class Schedule : unsigned char {
  kCooperative,  // All consumer warpgroups share one tile.
  kPingPong,     // Two consumer warpgroups alternate, each with its own tile.
  kInterleaved,  // They share a tile and take its stages in turn.
};

// Which dimension of P is contiguous in D.
enum class Store : unsigned char {
  kNormal,      // Columns: D's lines run along the instruction's n.
  kTransposed,  // Rows: D's lines run along the instruction's m.
};

// What the values of a scale or a bias belong to.
enum class Side : unsigned char { kNone, kRows, kColumns };

inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kInstructionM = 64;       // Rows of every wgmma.
inline constexpr int kInstructionKBytes = 32;  // Of k, for every type.
// Of k in a stage: one swizzle span of a k-major line, so four instructions.
inline constexpr int kSwizzleBytes = 128;
// Of X's line in a stage where X is sparse: it holds every other element.
inline constexpr int kSparseSpanBytes = kSwizzleBytes / 2;
// Lines of X, and of k, that share one value of a block scale of Y.
inline constexpr int kScaleLines = 128;
// Products of one launch.
inline constexpr int kMaxGroups = 256;
// Larger slabs leave too little room for four stages of the largest tiles.
inline constexpr int kMaxSlabBytes = 104 * kSwizzleBytes;
// What L2 writes to device memory, and merges with what is there where it was
// written in part.
inline constexpr int kSectorBytes = 32;
// The same of slabs that overlap, which are of any width.
inline constexpr int kMaxOverlappingColumns = 64;

template <typename T>
constexpr T Min(T a, T b) {
  return a < b ? a : b;
}
template <typename T>
constexpr T Max(T a, T b) {
  return a < b ? b : a;
}

// Both at most 2^31 - 256, see kMaxDimension, and b at most 256: no overflow.
constexpr int DivideUp(int a, int b) { return (a + (b - 1)) / b; }

// Largest divisor of `n` that is a multiple of `unit` and at most `limit`.
constexpr int LargestDivisor(int n, int unit, int limit) {
  int best = unit;
  for (int d = unit; d <= n && d <= limit; d += unit) {
    if (n % d == 0) best = d;
  }
  return best;
}

// Largest power of two that divides `n` and is at most `limit`.
constexpr int PowerOfTwoDivisor(int n, int limit) {
  int best = 1;
  while (2 * best <= limit && n % (2 * best) == 0) best *= 2;
  return best;
}

// Bytes of the contiguous dimension that a slab of an operand spans, and that
// it is swizzled over unless those are 16: as few as `lines` mn-major lines,
// which are of 16-bit elements, need.
constexpr int OperandSpanBytes(Major major, int lines) {
  int bytes = kSwizzleBytes;
  if (major == Major::kMn) {
    while (bytes > 16 && lines * 2 <= bytes / 2) bytes /= 2;
  }
  return bytes;
}

// Bytes of one operand in a stage. k-major: `lines` lines of 128 bytes.
// mn-major, 16-bit types only: slabs of 64 of k, so the last slab may be partly
// unused.
constexpr int OperandTileBytes(Major major, int lines) {
  const int span = OperandSpanBytes(major, lines);
  return major == Major::kK ? lines * span
                            : DivideUp(lines * 2, span) * span * 64;
}

// Metadata of a sparse X come in words of 32 bits, for each thread of the
// warpgroup that multiplies a block of 64 lines. Words in a stage, for elements
// of so many bits: one serves two instructions of half as many bits.
constexpr int MetadataWords(int element_bits) {
  return element_bits == 8 ? 2 : 1;
}

// Bytes of them for a tile of X.
constexpr int MetadataBytes(int element_bits, int lines) {
  return lines / kInstructionM * kWarpgroupThreads * 4 *
         MetadataWords(element_bits);
}

// Bytes of a sparse X in a stage: `lines` lines of 64 bytes, and metadata. What
// is swizzled begins at multiples of 1024.
constexpr int SparseTileBytes(int element_bits, int lines) {
  return lines * kSparseSpanBytes +
         DivideUp(MetadataBytes(element_bits, lines), 1024) * 1024;
}

// Weights lie in fragment order: 64 lines in a stage, 64 of k, are the
// registers of the 128 threads that widen them, in lines of this many bytes.
// See kernels/prepare/fragments.cu.
inline constexpr int kFragmentLineBytes = 1024;
inline constexpr int kFragmentDepth = kSwizzleBytes / 2;

// Lines of them for elements of so many bits, 4 or 8.
constexpr int FragmentLines(int weight_bits) { return weight_bits / 2; }

// Words of 32 bits that a group of 64 lines has: a scale for each, then four
// zero points to a word.
constexpr int GroupWords(bool zero_points) {
  return kInstructionM + (zero_points ? kInstructionM / 4 : 0);
}

// Bytes of the groups of 64 lines in a stage.
constexpr int StageGroupBytes(int stage_groups, bool zero_points) {
  return stage_groups * GroupWords(zero_points) * 4;
}

// Bytes of an X that is widened in a stage: fragments, then groups.
constexpr int WidenedTileBytes(int weight_bits, int stage_groups,
                               bool zero_points, int lines) {
  const int of_block = FragmentLines(weight_bits) * kFragmentLineBytes +
                       StageGroupBytes(stage_groups, zero_points);
  return DivideUp(lines / kInstructionM * of_block, 1024) * 1024;
}

// Whether slabs of so many columns fill the lines and boxes of the copy engine
// well enough. Narrow tiles have no wider ones.
constexpr bool IsGoodSlab(Store store, int tile_n, int columns,
                          int element_bytes) {
  if (store == Store::kTransposed) return tile_n <= 24 || columns >= 24;
  return tile_n <= 32 || columns * element_bytes >= kSwizzleBytes / 2 ||
         (columns >= 32 && tile_n <= 96);
}

// The epilogue moves blocks of 64 rows in slabs of whole columns. A normal
// slab's lines are rows of up to 128 bytes; a transposed slab's are columns of
// 64 elements, split into boxes of at most 128 bytes. The slabs of a tile are
// equal. Where they may overlap and none that divides the tile is good, they
// are those that move the least: see SlabColumn.
constexpr int SlabColumns(Store store, int tile_n, int element_bytes,
                          bool may_overlap, int most = 256) {
  const bool transposed = store == Store::kTransposed;
  const int limit =
      Min(most, (transposed ? kMaxSlabBytes / kInstructionM : kSwizzleBytes) /
                    element_bytes);
  const int dividing = transposed ? LargestDivisor(tile_n, 8, limit)
                                  : PowerOfTwoDivisor(tile_n, limit);
  // Else two tiles would write parts of the same sector.
  const bool aligned = transposed || tile_n * element_bytes % kSectorBytes == 0;
  if (!may_overlap || !aligned ||
      IsGoodSlab(store, tile_n, dividing, element_bytes)) {
    return dividing;
  }
  int best = dividing, least = 2 * tile_n;
  for (int columns = 8; columns <= Min(limit, kMaxOverlappingColumns);
       columns += transposed ? 8 : columns) {
    const int moved = DivideUp(tile_n, columns) * columns;
    if (IsGoodSlab(store, tile_n, columns, element_bytes) && moved <= least &&
        columns <= tile_n) {
      best = columns, least = moved;
    }
  }
  return best;
}

constexpr int Slabs(int tile_n, int slab_columns) {
  return DivideUp(tile_n, slab_columns);
}

// The first column of slab number `slab`. The last one ends with the tile: it
// makes columns of the one before again if that is no multiple.
constexpr int SlabColumn(int tile_n, int slab_columns, int slab) {
  return Min(slab * slab_columns, tile_n - slab_columns);
}

// The most columns of a slab where CTAs of a cluster share a tile: so few that
// each of them has a slab to make, if lines of a box stay 16 bytes.
constexpr int MostSlabColumns(int cluster, int tile_m, int tile_n,
                              int element_bytes) {
  const int fair = tile_m / kInstructionM * tile_n / cluster;
  const int least = Max(8, 16 / element_bytes);
  return cluster == 1 ? 256 : Max(least, fair);
}

// Bytes of a line of the copy engine's boxes of a slab. At least 16.
constexpr int SlabLineBytes(Store store, int slab_columns, int element_bytes) {
  return store == Store::kTransposed
             ? Min(kInstructionM * element_bytes, kSwizzleBytes)
             : slab_columns * element_bytes;
}

// Consumers that write tiles, each through buffers of its own.
constexpr int Writers(Schedule schedule, int consumers) {
  return schedule == Schedule::kInterleaved ? 1 : consumers;
}

// Consumers that share k hand their sums of a tile, f32, to the first.
constexpr int HandedBytes(Schedule schedule, int consumers, int tile_m,
                          int tile_n) {
  return (consumers - Writers(schedule, consumers)) * tile_m * tile_n * 4;
}

// CTAs of a cluster send each other the sums, of 32 bits, of the slabs that the
// other makes: as many slabs at most, of as many CTAs.
constexpr int ClusterBytes(int cluster, int tile_m, int tile_n,
                           int slab_columns) {
  const int slabs = tile_m / kInstructionM * Slabs(tile_n, slab_columns);
  return cluster == 1 ? 0
                      : DivideUp(slabs, cluster) * cluster * slab_columns *
                            kInstructionM * 4;
}

// Buffers of a writer's slabs: one leaves while another is filled. C comes ahead
// into as many more as have room.
inline constexpr int kSlabBuffers = 2;
inline constexpr int kMostSlabBuffers = 4;

// Of barriers: those of the ring, of each consumer's buffers, of turns, of the
// cluster.
constexpr int BarrierBytes(int stages, int consumers, int slab_buffers) {
  return 16 * (stages + 2) + 8 * consumers * slab_buffers;
}

// Warps, at most, that hold a tile's sums.
constexpr int kPassFlags = 16;

// Division of 0 <= n < 2^31 by a number that is known before a launch: on the
// device a multiplication takes a tenth of a division's time. With
// s = ceil(log2 d) and multiplier = ceil(2^(31 + s) / d), the error of
// n * multiplier / 2^(31 + s) is below 1 / d.
struct Divisor {
  unsigned value;
  unsigned multiplier;
  unsigned shift;
};

constexpr Divisor DivisorOf(int value) {
  const auto d = static_cast<unsigned>(value);
  unsigned shift = 0;
  while ((1ull << shift) < d) ++shift;
  const unsigned long long power = 1ull << (31 + shift);
  return {d, static_cast<unsigned>((power + d - 1) / d), shift};
}

constexpr int Divide(int n, const Divisor& d) {
  const unsigned long long twice = 2u * static_cast<unsigned>(n);
  return static_cast<int>(static_cast<unsigned>(twice * d.multiplier >> 32) >>
                          d.shift);
}

// Passes over k that a product of operands in three planes takes, one for each
// pair of planes that counts.
inline constexpr int kSplitPasses = 6;

// A stage of a pass.
struct PassStage {
  int pass;
  int stage;
};

// Number `index` in the order in which they are multiplied, of `last` + 1
// passes: one or kSplitPasses.
constexpr PassStage PassStageOf(int index, int last, int stages) {
  if (index >= last * stages) return {last, index - last * stages};
  const int stage = index / (kSplitPasses - 1);
  return {index - stage * (kSplitPasses - 1), stage};
}

// The order in which tiles are computed. CTAs take tiles round robin, so that
// neighbours in this order run at the same time and share operands in L2:
// groups of a few tile rows are walked column by column.
struct Raster {
  int tile_rows;
  Divisor tiles;       // Of the matrix.
  Divisor per_group;   // Tiles.
  Divisor group;       // Tile rows.
  Divisor last_group;  // Tile rows of the last one.
};

constexpr Raster RasterOf(int tile_rows, int tile_columns, int group) {
  const int rest = tile_rows % group;
  return {tile_rows, DivisorOf(tile_rows * tile_columns),
          DivisorOf(group * tile_columns), DivisorOf(group),
          DivisorOf(rest == 0 ? group : rest)};
}

// The first line of the last tile of `count` lines, if it may have lines of the
// tile before: a multiple of `unit`, so that as few as can be are beyond the
// edge. The copy engine takes longer to fill in zeros than to copy (an H100, one
// wave of 128x128 of which the last column has 8: 100 instead of 72 us).
constexpr int LastTileLine(int tile, int count, int unit) {
  return DivideUp(Max(0, count - tile), unit) * unit;
}

struct TileIndex {
  int row;
  int column;
};

constexpr TileIndex TileAt(const Raster& raster, int index) {
  const int group = Divide(index, raster.per_group);
  const int rest = index - group * static_cast<int>(raster.per_group.value);
  const int first = group * static_cast<int>(raster.group.value);
  const bool whole =
      first + static_cast<int>(raster.group.value) <= raster.tile_rows;
  const Divisor rows = whole ? raster.group : raster.last_group;
  const int column = Divide(rest, rows);
  return {first + rest - column * static_cast<int>(rows.value), column};
}

}  // namespace gemmd
