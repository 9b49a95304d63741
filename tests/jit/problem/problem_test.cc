#include "jit/problem/problem.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "jit/problem/problem_line.h"

namespace gemmd::jit {
namespace {

Problem Valid() { return {.m = 3, .n = 4, .k = 5}; }

std::string FoldedLine(const std::string& line) {
  const absl::StatusOr<Problem> problem = ParseProblemLine(line);
  EXPECT_TRUE(problem.ok()) << problem.status();
  return ProblemLine(Folded(*problem));
}

TEST(Problem, KnowsWhatItReads) {
  Problem problem = Valid();
  EXPECT_TRUE(problem.reads_ab());
  EXPECT_FALSE(problem.reads_c());
  problem.alpha = 0;
  EXPECT_FALSE(problem.reads_ab());
  problem = Valid();
  problem.k = 0;
  EXPECT_FALSE(problem.reads_ab());
  problem = Valid();
  EXPECT_TRUE(problem.writes());
  problem.batch = 0;
  EXPECT_FALSE(problem.writes());
}

TEST(Problem, ABatchLiesOneMatrixBehindTheOther) {
  Problem problem = Valid();
  problem.batch = 7;
  problem.b_broadcast = true;
  EXPECT_EQ(problem.a().lines(), 7 * 3);
  EXPECT_EQ(problem.a().matrix_lines(), 3);
  EXPECT_EQ(problem.b().lines(), 5);
  EXPECT_EQ(problem.d().device_bytes(), 7 * 3 * 16);
}

TEST(Problem, ABatchThatSharesAnOperandIsFoldedWhereItIsOneProduct) {
  EXPECT_EQ(FoldedLine("bf16 TN 3 4 5 order=row batch=7 broadcast=b beta=2 "
                       "bias=column a_scale=tensor b_scale=column aux amax"),
            "bf16 TN 21 4 5 beta=2 order=row bias=column a_scale=tensor "
            "b_scale=column aux amax");
  EXPECT_EQ(FoldedLine("bf16 NN 3 4 5 batch=7 broadcast=a bias=row"),
            "bf16 NN 3 28 5 bias=row");
  EXPECT_EQ(FoldedLine("bf16-s4 TN 3 4 32 order=row batch=7 broadcast=b "
                       "group=32"),
            "bf16-s4 TN 21 4 32 order=row group=32");
  EXPECT_EQ(FoldedLine("sparse-f16 TN 8 8 16 batch=2 broadcast=a"),
            "sparse-f16 TN 8 16 16");
  EXPECT_EQ(FoldedLine("bf16 TN 3 4 5 batch=1 order=row broadcast=b"),
            "bf16 TN 3 4 5 order=row");
}

TEST(Problem, ABatchIsNotFoldedWhereItIsMore) {
  for (const std::string line : {
           "bf16 TN 3 4 5 order=row batch=7",
           "bf16 TN 3 4 5 order=row batch=7 broadcast=a",
           "bf16 TN 3 4 5 order=row batch=7 broadcast=ab",
           // Lines of A that are not those of D.
           "bf16 TN 3 4 5 batch=7 broadcast=b",
           "bf16 NN 3 4 5 order=row batch=7 broadcast=b",
           "bf16 NT 3 4 5 batch=7 broadcast=a",
           // Values that every product has for its lines.
           "bf16 TN 3 4 5 order=row batch=7 broadcast=b bias=row",
           "e4m3 TN 3 4 5 order=row batch=7 broadcast=b a_scale=row",
           "e4m3 TN 3 4 5 order=row batch=7 broadcast=b a_scale=block "
           "b_scale=block",
           "bf16 NN 3 4 5 batch=7 broadcast=a bias=column",
           // Lines that lie in blocks.
           "sparse-f16 TN 8 8 16 order=row batch=2 broadcast=b",
           "s4-bf16 TN 3 4 32 order=row batch=7 broadcast=b group=32",
           // More lines than a matrix may have.
           "bf16 TN 65536 1 1 order=row batch=32768 broadcast=b",
       }) {
    const absl::StatusOr<Problem> problem = ParseProblemLine(line);
    ASSERT_TRUE(problem.ok()) << line << ": " << problem.status();
    EXPECT_EQ(Folded(*problem), *problem) << line;
  }
}

TEST(Problem, ScalesAreRowsOfF32OrBlocks) {
  Problem problem = Valid();
  problem.k = 129;
  EXPECT_TRUE(problem.bias().empty());
  EXPECT_TRUE(problem.d_scale().empty());
  problem.epilogue = {.bias = Extent::kColumn,
                      .a_scale = Extent::kBlock,
                      .b_scale = Extent::kColumn};
  EXPECT_EQ(problem.bias().columns, 4);
  EXPECT_EQ(problem.a_scale().rows, 3);
  EXPECT_EQ(problem.a_scale().columns, 2);
  EXPECT_EQ(problem.b_scale().columns, 4);
  problem.epilogue.b_scale = Extent::kBlock;
  EXPECT_EQ(problem.b_scale().rows, 2);
  EXPECT_EQ(problem.b_scale().columns, 1);
}

TEST(DebugString, SpeaksBlas) {
  Problem problem = Valid();
  problem.b_order = Order::kColumnMajor;
  problem.d_order = Order::kColumnMajor;
  EXPECT_EQ(DebugString(problem), "bf16 TN 3x4x5 -> bf16");
  problem.batch = 2;
  problem.a_type = DataType::kE5m2;
  problem.b_type = DataType::kE4m3;
  EXPECT_EQ(DebugString(problem), "e5m2-e4m3 TN 2x3x4x5 -> bf16");
  // numpy's a @ b is column-major BLAS with the operands exchanged.
  EXPECT_EQ(DebugString(Valid()), "bf16 NN 4x3x5 -> bf16");
}

TEST(MatrixLayout, PadsLongLinesToCacheLines) {
  const MatrixLayout layout{DataType::kBf16, Order::kRowMajor, 2, 3333};
  EXPECT_EQ(layout.width_bytes(), 6666);
  EXPECT_EQ(layout.pitch_bytes(), 6784);
}

TEST(MatrixLayout, NoLineLiesInMoreLinesOfTheCacheThanItMust) {
  for (int64_t bytes = 1; bytes < 1000; ++bytes) {
    const int64_t pitch = PitchOf(bytes);
    EXPECT_GE(pitch, bytes);
    EXPECT_EQ(pitch % 16, 0) << bytes;
    // At most twice the bytes, but for the smallest.
    EXPECT_LT(pitch, std::max<int64_t>(17, 2 * bytes)) << bytes;
    for (int64_t line = 0; line < 130; ++line) {
      const int64_t touched =
          (line * pitch + bytes - 1) / 128 - line * pitch / 128 + 1;
      ASSERT_EQ(touched, (bytes + 127) / 128) << bytes;
    }
  }
  EXPECT_EQ(PitchOf(0), 0);
}

TEST(MatrixLayout, PadsLinesToSixteenBytes) {
  const MatrixLayout row{DataType::kBf16, Order::kRowMajor, 3, 9};
  EXPECT_EQ(row.width(), 9);
  EXPECT_EQ(row.lines(), 3);
  EXPECT_EQ(row.width_bytes(), 18);
  EXPECT_EQ(row.pitch_bytes(), 32);
  EXPECT_EQ(row.device_bytes(), 96);
  const MatrixLayout column{DataType::kF32, Order::kColumnMajor, 4, 2};
  EXPECT_EQ(column.width(), 4);
  EXPECT_EQ(column.pitch_bytes(), 16);
}

TEST(MatrixLayout, ASparseLineIsValuesThenMetadata) {
  const MatrixLayout row{DataType::kBf16, Order::kRowMajor, 3, 20, 2, true};
  EXPECT_EQ(row.width(), 20);
  EXPECT_EQ(row.values_bytes(), 20);
  EXPECT_EQ(row.metadata_bytes(), 3);
  EXPECT_EQ(row.width_bytes(), 23);
  EXPECT_EQ(row.pitch_bytes(), 32);
  EXPECT_EQ(row.device_bytes(), 6 * 32);
  EXPECT_EQ(row.bytes().width_bytes(), 23);
  EXPECT_EQ(row.bytes().lines(), 6);
  EXPECT_EQ(row.bytes().pitch_bytes(), 32);
  EXPECT_EQ(row.dense().width_bytes(), 40);
  const MatrixLayout column{DataType::kF32, Order::kColumnMajor, 6, 5, 1, true};
  EXPECT_EQ(column.values_bytes(), 12);
  EXPECT_EQ(column.metadata_bytes(), 2);
  EXPECT_EQ(column.bytes().lines(), 5);
}

TEST(MatrixLayout, AQuantizedLineIsElementsThenScalesThenZeroPoints) {
  MatrixLayout column{DataType::kU4, Order::kColumnMajor, 67, 5, 2};
  EXPECT_EQ(column.width_bytes(), 34);
  EXPECT_EQ(column.last_byte_bits(), 4);
  EXPECT_FALSE(column.composite());
  column.quantization = {.group = 32, .zero_points = true};
  EXPECT_TRUE(column.composite());
  EXPECT_EQ(column.groups(), 3);
  EXPECT_EQ(column.values_bytes(), 34);
  EXPECT_EQ(column.zero_points_at(), 34 + 12);
  EXPECT_EQ(column.width_bytes(), 34 + 12 + 3);
  EXPECT_EQ(column.last_byte_bits(), 8);
  EXPECT_EQ(column.bytes().width_bytes(), 49);
  EXPECT_EQ(column.bytes().lines(), 10);
  EXPECT_EQ(column.dense().width_bytes(), 34);
  EXPECT_FALSE(column.dense().composite());
  MatrixLayout row{DataType::kS8, Order::kRowMajor, 3, 100};
  row.quantization.group = kWholeLine;
  EXPECT_EQ(row.groups(), 1);
  EXPECT_EQ(row.width_bytes(), 104);
}

TEST(Problem, WeightsAloneAreQuantized) {
  Problem problem = Valid();
  problem.quantization = {.group = 64};
  problem.b_type = DataType::kS4;
  EXPECT_EQ(problem.a().quantization, Quantization());
  EXPECT_EQ(problem.b().quantization, problem.quantization);
  std::swap(problem.a_type, problem.b_type);
  EXPECT_EQ(problem.a().quantization, problem.quantization);
  EXPECT_EQ(problem.b().quantization, Quantization());
  EXPECT_EQ(problem.d().quantization, Quantization());
}

TEST(Problem, TheSparseOperandIsALayoutOfItsOwn) {
  Problem problem = Valid();
  problem.sparse = Sparse::kB;
  EXPECT_FALSE(problem.a().sparse);
  EXPECT_TRUE(problem.b().sparse);
  problem.sparse = Sparse::kA;
  EXPECT_TRUE(problem.a().sparse);
  EXPECT_FALSE(problem.b().sparse);
  EXPECT_FALSE(problem.d().sparse);
}

}  // namespace
}  // namespace gemmd::jit
