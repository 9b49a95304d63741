// The arithmetic that host and device share: division by prepared numbers,
// the raster visits every tile once, slabs fit the copy engine, the largest
// dimensions overflow nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "jit/problem/problem.h"
#include "templates/common/geometry.h"

namespace gemmd {
namespace {

TEST(Divisor, DividesExactly) {
  const int numbers[] = {0,       1,          2,         3,
                         6,       7,          99,        132,
                         4095,    65536,      1000003,   (1 << 30) - 1,
                         1 << 30, 2147483646, 2147483647};
  for (const int d : numbers) {
    if (d == 0) continue;
    const Divisor divisor = DivisorOf(d);
    for (const int n : numbers) EXPECT_EQ(Divide(n, divisor), n / d) << n << d;
    // Where the quotient changes.
    for (int64_t multiple = d; multiple < (int64_t{1} << 31);
         multiple += int64_t{d} * (1 + (int64_t{1} << 31) / d / 50)) {
      const int n = static_cast<int>(multiple);
      EXPECT_EQ(Divide(n, divisor), n / d);
      EXPECT_EQ(Divide(n - 1, divisor), (n - 1) / d);
    }
  }
}

TEST(Raster, VisitsEveryTileOnce) {
  for (const int rows : {1, 2, 16, 17, 32}) {
    for (const int columns : {1, 2, 15, 16}) {
      for (const int group : {1, 3, 8, 40}) {
        const Raster raster = RasterOf(rows, columns, group);
        EXPECT_EQ(static_cast<int>(raster.tiles.value), rows * columns);
        std::set<std::pair<int, int>> seen;
        for (int i = 0; i < rows * columns; ++i) {
          const TileIndex tile = TileAt(raster, i);
          EXPECT_GE(tile.row, 0);
          EXPECT_GE(tile.column, 0);
          EXPECT_LT(tile.row, rows);
          EXPECT_LT(tile.column, columns);
          EXPECT_TRUE(seen.emplace(tile.row, tile.column).second);
        }
      }
    }
  }
}

TEST(Raster, WalksAGroupColumnByColumn) {
  const Raster raster = RasterOf(5, 2, 2);
  const int rows[] = {0, 1, 0, 1, 2, 3, 2, 3, 4, 4};
  const int columns[] = {0, 0, 1, 1, 0, 0, 1, 1, 0, 1};
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(TileAt(raster, i).row, rows[i]) << i;
    EXPECT_EQ(TileAt(raster, i).column, columns[i]) << i;
  }
}

// What rounds up to whole tiles stays an int: with a larger bound, products
// just below 2^31 wrote nothing and said OK.
TEST(Dimensions, TheLargestRoundsUpWithoutOverflow) {
  constexpr auto kLargest = static_cast<int>(jit::kMaxDimension);
  for (int tile = 8; tile <= 256; tile += 8) {
    const int64_t tiles = DivideUp(kLargest, tile);
    EXPECT_EQ(tiles, (int64_t{kLargest} + tile - 1) / tile) << tile;
    EXPECT_LT(tiles * tile, int64_t{1} << 31) << tile;
  }
}

// Tiles cover the matrix, also where the last ones overlap, and begin where the
// copy engine can begin.
TEST(Tiles, CoverTheMatrix) {
  for (const int unit : {16, 64}) {
    for (const int tile : {8, 24, 64, 136, 256}) {
      for (int count = 1; count <= 700; ++count) {
        int covered = 0;
        // One more than there are: of CTAs that load for each other.
        for (int number = 0; number <= DivideUp(count, tile); ++number) {
          const int first =
              std::min(number * tile, LastTileLine(tile, count, unit));
          ASSERT_LE(first, covered);
          ASSERT_EQ(first % 8, 0);
          if (count > tile) {
            ASSERT_LT(first + tile, count + unit) << "beyond the edge";
          }
          covered = std::max(covered, first + tile);
        }
        ASSERT_GE(covered, count);
      }
    }
  }
  EXPECT_EQ(LastTileLine(128, 1800, 16), 1680);
  EXPECT_EQ(LastTileLine(128, 1800, 64), 1728);
}

TEST(Slabs, FillTilesAndFitTheCopyEngine) {
  for (const Store store : {Store::kNormal, Store::kTransposed}) {
    for (const int bytes : {1, 2, 4}) {
      for (int tile_n = 8; tile_n <= 256; tile_n += 8) {
        const int columns = SlabColumns(store, tile_n, bytes, false);
        EXPECT_EQ(tile_n % columns, 0);
        EXPECT_EQ(columns % 8, 0);
        EXPECT_LE(columns * kInstructionM * bytes, kMaxSlabBytes);
        const int line = SlabLineBytes(store, columns, bytes);
        EXPECT_LE(line, kSwizzleBytes);
        EXPECT_EQ(columns * kInstructionM * bytes % line, 0);
      }
    }
  }
  EXPECT_EQ(SlabColumns(Store::kNormal, 200, 2, false), 8);
  EXPECT_EQ(SlabColumns(Store::kNormal, 192, 2, false), 64);
  EXPECT_EQ(SlabColumns(Store::kTransposed, 208, 2, false), 104);
  EXPECT_EQ(SlabColumns(Store::kTransposed, 208, 1, false), 208);
}

// Where they may overlap they cover the tile, in order, and the last one ends
// with it; only those that would be bad otherwise do.
TEST(Slabs, OverlapWhereNoGoodOneDividesTheTile) {
  for (const Store store : {Store::kNormal, Store::kTransposed}) {
    for (const int bytes : {1, 2, 4}) {
      for (int tile_n = 8; tile_n <= 256; tile_n += 8) {
        const int columns = SlabColumns(store, tile_n, bytes, true);
        ASSERT_LE(columns, tile_n);
        EXPECT_LE(columns * kInstructionM * bytes, kMaxSlabBytes);
        const int line = SlabLineBytes(store, columns, bytes);
        EXPECT_LE(line, kSwizzleBytes);
        EXPECT_EQ(line & (line - 1), 0);
        const int slabs = Slabs(tile_n, columns);
        int covered = 0;
        for (int slab = 0; slab < slabs; ++slab) {
          const int first = SlabColumn(tile_n, columns, slab);
          EXPECT_LE(first, covered);
          EXPECT_EQ(first % 8, 0);
          covered = first + columns;
        }
        EXPECT_EQ(covered, tile_n);
        const int dividing = SlabColumns(store, tile_n, bytes, false);
        if (IsGoodSlab(store, tile_n, dividing, bytes)) {
          EXPECT_EQ(columns, dividing);
        } else if (columns != dividing) {
          EXPECT_TRUE(IsGoodSlab(store, tile_n, columns, bytes));
          EXPECT_EQ(store == Store::kNormal ? tile_n * bytes % 32 : 0, 0);
        }
      }
    }
  }
  // Those that move the least, 64 columns at most.
  EXPECT_EQ(SlabColumns(Store::kTransposed, 136, 2, true), 48);
  EXPECT_EQ(SlabColumns(Store::kTransposed, 152, 2, true), 40);
  EXPECT_EQ(SlabColumns(Store::kTransposed, 248, 2, true), 64);
  EXPECT_EQ(SlabColumns(Store::kNormal, 144, 2, true), 32);
  EXPECT_EQ(SlabColumns(Store::kNormal, 240, 2, true), 64);
  EXPECT_EQ(SlabColumns(Store::kNormal, 40, 4, true), 16);
  EXPECT_EQ(SlabColumn(240, 64, 3), 176);
}

TEST(Stages, AnMnMajorTileIsMadeOfWholeSlabs) {
  EXPECT_EQ(OperandTileBytes(Major::kK, 200), 200 * 128);
  EXPECT_EQ(OperandTileBytes(Major::kMn, 200), 256 * 128);
  EXPECT_EQ(OperandTileBytes(Major::kMn, 64), 64 * 128);
  EXPECT_EQ(OperandTileBytes(Major::kMn, 40), 64 * 128);
  EXPECT_EQ(OperandTileBytes(Major::kK, 8), 8 * 128);
}

TEST(Stages, ANarrowMnMajorTileHasShortLines) {
  const struct {
    int lines, bytes;
  } spans[] = {{8, 16}, {16, 32}, {24, 64}, {32, 64}, {40, 128}, {256, 128}};
  for (const auto& [lines, bytes] : spans) {
    EXPECT_EQ(OperandSpanBytes(Major::kMn, lines), bytes) << lines;
    EXPECT_EQ(OperandSpanBytes(Major::kK, lines), 128) << lines;
  }
  EXPECT_EQ(OperandTileBytes(Major::kMn, 8), 64 * 16);
  EXPECT_EQ(OperandTileBytes(Major::kMn, 24), 64 * 64);
}

}  // namespace
}  // namespace gemmd
