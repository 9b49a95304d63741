#include "jit/problem/problem.h"

#include <gtest/gtest.h>

#include <string>

namespace gemmd::jit {
namespace {

Problem Valid() { return {.m = 3, .n = 4, .k = 5}; }

void ExpectError(const Problem& problem, absl::StatusCode code,
                 const std::string& text) {
  const absl::Status status = Validate(problem);
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_NE(status.message().find(text), std::string::npos) << status;
}

TEST(Validate, AcceptsWhatIsServed) {
  for (const DataType input : {DataType::kBf16, DataType::kF16}) {
    for (const DataType output :
         {DataType::kBf16, DataType::kF16, DataType::kF32}) {
      Problem problem = Valid();
      problem.a_type = problem.b_type = input;
      problem.c_type = problem.d_type = output;
      problem.beta = 1;
      EXPECT_TRUE(Validate(problem).ok());
    }
  }
  EXPECT_TRUE(Validate({.m = 0, .n = 0, .k = 0}).ok());
}

TEST(Validate, NamesTheDimension) {
  Problem problem = Valid();
  problem.m = -1;
  ExpectError(problem, absl::StatusCode::kInvalidArgument,
              "problem.m is -1; allowed: 0 to 2147483647");
  problem = Valid();
  problem.k = kMaxDimension + 1;
  ExpectError(problem, absl::StatusCode::kInvalidArgument, "problem.k");
}

TEST(Validate, NamesTheUnservedType) {
  Problem problem = Valid();
  problem.a_type = problem.b_type = DataType::kE4m3;
  ExpectError(problem, absl::StatusCode::kUnimplemented, "a_type is e4m3");
  problem = Valid();
  problem.b_type = DataType::kF16;
  ExpectError(problem, absl::StatusCode::kUnimplemented, "b_type is f16");
  problem = Valid();
  problem.d_type = DataType::kS32;
  ExpectError(problem, absl::StatusCode::kUnimplemented, "d_type is s32");
}

TEST(Validate, IgnoresTheTypeOfAnUnreadC) {
  Problem problem = Valid();
  problem.c_type = DataType::kF32;
  EXPECT_TRUE(Validate(problem).ok());
  problem.beta = 2;
  ExpectError(problem, absl::StatusCode::kUnimplemented, "c_type is f32");
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
}

TEST(DebugString, SpeaksBlas) {
  Problem problem = Valid();
  problem.b_order = Order::kColumnMajor;
  problem.d_order = Order::kColumnMajor;
  EXPECT_EQ(DebugString(problem), "bf16 TN 3x4x5 -> bf16");
  // numpy's a @ b is column-major BLAS with the operands exchanged.
  EXPECT_EQ(DebugString(Valid()), "bf16 NN 4x3x5 -> bf16");
}

TEST(MatrixLayout, PadsLongLinesToCacheLines) {
  const MatrixLayout layout{DataType::kBf16, Order::kRowMajor, 2, 3333};
  EXPECT_EQ(layout.width_bytes(), 6666);
  EXPECT_EQ(layout.pitch_bytes(), 6784);
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

}  // namespace
}  // namespace gemmd::jit
