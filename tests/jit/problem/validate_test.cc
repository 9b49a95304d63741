#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "jit/problem/problem.h"

namespace gemmd::jit {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnserved = absl::StatusCode::kUnimplemented;

Problem Valid(DataType input = DataType::kBf16) {
  Problem problem = {.m = 3, .n = 4, .k = 5};
  problem.a_type = problem.b_type = input;
  problem.accumulator = DefaultAccumulator(input, input);
  problem.c_type = problem.d_type = DefaultOutput(input, input);
  return problem;
}

void ExpectError(const Problem& problem, absl::StatusCode code,
                 const std::string& text) {
  const absl::Status status = Validate(problem);
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_NE(status.message().find(text), std::string::npos) << status;
}

TEST(Validate, AcceptsEveryArithmeticWithEachOfItsOutputs) {
  for (const Arithmetic& arithmetic : Arithmetics()) {
    for (const DataType output : OutputsOf(arithmetic.accumulator)) {
      for (const DataType c : {output, DataType::kF32}) {
        Problem problem = {.m = 3, .n = 4, .k = 8};
        problem.SetArithmetic(arithmetic);
        problem.b_order = Order::kColumnMajor;
        problem.d_type = output;
        problem.c_type = output == DataType::kS32 ? output : c;
        problem.beta = 1;
        EXPECT_TRUE(Validate(problem).ok())
            << Name(arithmetic) << Validate(problem);
      }
    }
  }
  EXPECT_TRUE(Validate({.m = 0, .n = 0, .k = 0}).ok());
}

TEST(Validate, NamesTheDimension) {
  Problem problem = Valid();
  problem.m = -1;
  ExpectError(problem, kInvalid,
              absl::StrCat("problem.m is -1; allowed: 0 to ", kMaxDimension));
  problem = Valid();
  problem.k = kMaxDimension + 1;
  ExpectError(problem, kInvalid, "problem.k");
  problem = Valid();
  problem.batch = -1;
  ExpectError(problem, kInvalid, "problem.batch is -1");
}

TEST(Validate, NamesTheFieldWhatItMayBeAndTheNearestServed) {
  Problem problem = Valid();
  problem.b_type = DataType::kF16;
  ExpectError(problem, kUnserved,
              "problem.b_type is f16; served: bf16, s4, u4, s8, e4m3 with "
              "a_type bf16. The nearest that is served: bf16");
  problem = Valid(DataType::kS32);
  ExpectError(problem, kUnserved, "problem.a_type is s32; served: bf16, f16, ");
  problem = Valid();
  problem.accumulator = DataType::kF16;
  ExpectError(problem, kUnserved,
              "problem.accumulator is f16; served: f32 with a_type bf16");
  problem = Valid();
  problem.precision = Precision::kTf32;
  ExpectError(problem, kInvalid,
              "problem.precision is tf32; allowed: default with a_type bf16");
  problem = Valid(DataType::kE4m3);
  problem.accumulator = DataType::kF16;
  problem.precision = Precision::kFast;
  ExpectError(problem, kInvalid, "problem.precision is fast; allowed: default");
  problem = Valid();
  problem.clamps = true;
  ExpectError(problem, kInvalid, "problem.saturate is true; allowed: false");
  problem = Valid(DataType::kS8);
  problem.bit_operation = BitOperation::kXor;
  ExpectError(problem, kInvalid, "problem.bit_operation is xor; allowed: and");
}

TEST(Validate, OutputsGoWithTheTypeOfTheSum) {
  Problem problem = Valid();
  problem.d_type = DataType::kS32;
  ExpectError(problem, kUnserved,
              "problem.d_type is s32; served: f32, f16, bf16, e4m3, e5m2 with "
              "sums in f32");
  problem = Valid(DataType::kU8);
  problem.d_type = DataType::kE4m3;
  ExpectError(problem, kUnserved, "s32, f32, f16, bf16, s8, u8 with sums in");
}

TEST(Validate, CHasTheTypeOfDOrF32AndIsIgnoredWhenUnread) {
  Problem problem = Valid();
  problem.c_type = DataType::kF16;
  EXPECT_TRUE(Validate(problem).ok());
  problem.beta = 2;
  ExpectError(problem, kUnserved,
              "problem.c_type is f16; served: bf16, f32 with d_type bf16");
  problem.c_type = DataType::kF32;
  EXPECT_TRUE(Validate(problem).ok());
}

TEST(Validate, AnS32ResultHasNoStepsInF32) {
  Problem problem = Valid(DataType::kS8);
  problem.beta = 1;
  EXPECT_TRUE(Validate(problem).ok());
  problem.alpha = 0.5f;
  ExpectError(problem, kInvalid, "problem.alpha is 0.5; allowed: 0 or 1");
  problem = Valid(DataType::kS8);
  problem.epilogue.activation = Activation::kRelu;
  ExpectError(problem, kUnserved,
              "problem.activation is relu; served: none with d_type s32; the "
              "nearest d_type that goes with it: f32");
  problem.d_type = DataType::kS8;
  problem.alpha = 0.5f;
  EXPECT_TRUE(Validate(problem).ok());
}

TEST(Validate, TheStepThatIsRefusedIsNamed) {
  const std::pair<const char*, Epilogue> steps[] = {
      {"epilogue.bias is row", {.bias = Extent::kRow}},
      {"epilogue.a_scale is tensor", {.a_scale = Extent::kTensor}},
      {"epilogue.b_scale is column", {.b_scale = Extent::kColumn}},
      {"epilogue.d_scale is true", {.d_scale = true}},
      {"activation is silu", {.activation = Activation::kSilu}},
      {"epilogue.auxiliary is true", {.writes_auxiliary = true}},
      {"epilogue.amax is true", {.measures_amax = true}}};
  for (const auto& [text, epilogue] : steps) {
    Problem problem = Valid(DataType::kU8);
    problem.epilogue = epilogue;
    ExpectError(problem, kUnserved, absl::StrCat("problem.", text));
    problem.d_type = DataType::kF32;
    EXPECT_TRUE(Validate(problem).ok()) << text;
  }
}

TEST(Validate, ScalesBelongToTheirSide) {
  Problem problem = Valid(DataType::kE4m3);
  problem.epilogue.a_scale = Extent::kColumn;
  ExpectError(problem, kInvalid,
              "problem.epilogue.a_scale is column; allowed: none, tensor, row, "
              "block");
  problem.epilogue.a_scale = Extent::kBlock;
  ExpectError(problem, kUnserved, "problem.epilogue.b_scale is none");
  problem.epilogue.b_scale = Extent::kBlock;
  EXPECT_TRUE(Validate(problem).ok());
  problem.precision = Precision::kFast;
  ExpectError(problem, kUnserved, "block with sums of e4m3 and e5m2");
  problem = Valid();
  problem.epilogue.bias = Extent::kTensor;
  ExpectError(problem, kInvalid, "problem.epilogue.bias is tensor");
}

Problem Mixed(DataType a, DataType b) {
  Problem problem = {.m = 3, .n = 4, .k = 5};
  problem.SetArithmetic({.a = a, .b = b});
  return problem;
}

TEST(Validate, WeightsGoWithBf16AndF16) {
  for (const Order order : {Order::kRowMajor, Order::kColumnMajor}) {
    Problem problem = Mixed(DataType::kF16, DataType::kU4);
    problem.b_order = order;
    EXPECT_TRUE(Validate(problem).ok()) << Validate(problem);
  }
  ExpectError(Mixed(DataType::kBf16, DataType::kU8), kUnserved,
              "problem.b_type is u8; served: bf16, s4, u4, s8, e4m3 with "
              "a_type bf16");
  ExpectError(Mixed(DataType::kF32, DataType::kS4), kUnserved,
              "problem.b_type is s4; served: f32 with a_type f32");
  ExpectError(Mixed(DataType::kS4, DataType::kS4), kUnserved,
              "problem.b_type is s4; served: bf16, f16 with a_type s4");
  Problem problem = Mixed(DataType::kF16, DataType::kS4);
  problem.accumulator = DataType::kF16;
  ExpectError(problem, kUnserved, "problem.accumulator is f16; served: f32");
  problem = Mixed(DataType::kBf16, DataType::kS4);
  problem.sparse = Sparse::kA;
  EXPECT_EQ(Validate(problem).code(), kUnserved);
}

TEST(Validate, ScalesByBlockAreNotOfWeights) {
  Problem problem = Mixed(DataType::kE4m3, DataType::kBf16);
  problem.epilogue.a_scale = problem.epilogue.b_scale = Extent::kBlock;
  ExpectError(problem, kUnserved, "block with sums of e4m3 and e5m2");
}

TEST(Validate, GroupsAreOfFewSizes) {
  Problem problem = Mixed(DataType::kS4, DataType::kBf16);
  for (const int32_t group : {32, 64, 128, kWholeLine}) {
    for (const bool zero_points : {false, true}) {
      problem.quantization = {group, zero_points};
      EXPECT_TRUE(Validate(problem).ok()) << Validate(problem);
    }
  }
  for (const int32_t group : {48, -1, 1, 256}) {
    problem.quantization.group = group;
    ExpectError(problem, kInvalid,
                absl::StrCat("problem.quantization.group is ", group,
                             "; allowed: 32, 64, 128, 0 (all of k)"));
  }
  problem.quantization = {0, true};
  ExpectError(problem, kInvalid,
              "problem.quantization.zero_points is true; allowed without a "
              "group: false");
}

TEST(Validate, ZeroPointsAreOfFourBits) {
  for (const DataType weights : {DataType::kS8, DataType::kE4m3}) {
    Problem problem = Mixed(weights, DataType::kF16);
    problem.quantization = {128, false};
    EXPECT_TRUE(Validate(problem).ok());
    problem.quantization.zero_points = true;
    ExpectError(problem, kInvalid,
                absl::StrCat("problem.quantization.zero_points is true; "
                             "allowed with elements of ",
                             Name(weights), ": false; true with s4, u4"));
  }
}

TEST(Validate, QuantizationIsOfWeightsWhoseLinesRunAlongK) {
  Problem problem = Valid();
  problem.quantization.group = 32;
  ExpectError(problem, kInvalid,
              "problem.quantization is given; allowed: nothing with bf16;");
  problem = Mixed(DataType::kBf16, DataType::kU4);
  problem.quantization.group = 32;
  ExpectError(problem, kInvalid,
              "problem.b_order is row_major; allowed: column_major with "
              "problem.quantization");
  problem.b_order = Order::kColumnMajor;
  EXPECT_TRUE(Validate(problem).ok());
  problem = Mixed(DataType::kU4, DataType::kBf16);
  problem.quantization.group = 32;
  EXPECT_TRUE(Validate(problem).ok());
  problem.a_order = Order::kColumnMajor;
  ExpectError(problem, kInvalid,
              "problem.a_order is column_major; allowed: row_major with "
              "problem.quantization");
}

TEST(Validate, QuantizedElementsAreWeights) {
  EXPECT_EQ(Validate(Quantization{32, false}, DataType::kF32, "quantization")
                .message(),
            "quantization is given with elements of f32; allowed with: s4, u4, "
            "s8, e4m3");
}

TEST(Validate, LinesOfASparseOperandRunAlongKInWholeChunks) {
  Problem problem = Valid();
  problem.k = 12;
  problem.sparse = Sparse::kA;
  EXPECT_TRUE(Validate(problem).ok());
  problem.a_order = Order::kColumnMajor;
  ExpectError(problem, kInvalid,
              "problem.a_order is column_major; allowed: row_major with sparse "
              "a: the lines of a sparse operand run along k");
  problem.sparse = Sparse::kB;
  ExpectError(problem, kInvalid,
              "problem.b_order is row_major; allowed: column_major with sparse "
              "b");
  problem.b_order = Order::kColumnMajor;
  EXPECT_TRUE(Validate(problem).ok());
  problem.k = 14;
  ExpectError(problem, kInvalid,
              "problem.k is 14; allowed: multiples of 4 with sparse b of bf16");
  problem = Valid(DataType::kF32);
  problem.precision = Precision::kTf32;
  problem.sparse = Sparse::kA;
  ExpectError(problem, kInvalid,
              "problem.k is 5; allowed: multiples of 2 with");
  problem.k = 6;
  EXPECT_TRUE(Validate(problem).ok());
}

TEST(Validate, WhatIsNotSparseIsToldWhatIs) {
  Problem problem = Valid(DataType::kB1);
  problem.k = 8;
  problem.sparse = Sparse::kA;
  ExpectError(problem, kUnserved, "problem.a_type is b1; served: bf16, f16, ");
  problem = Valid(DataType::kF32);
  problem.k = 8;
  problem.sparse = Sparse::kA;
  ExpectError(problem, kInvalid,
              "problem.precision is default; allowed: tf32, fast with sparse "
              "a, a_type f32");
  problem = Valid(DataType::kE4m3);
  problem.k = 8;
  problem.sparse = Sparse::kA;
  problem.epilogue.a_scale = problem.epilogue.b_scale = Extent::kBlock;
  ExpectError(
      problem, kUnserved,
      "block with sums of e4m3 and e5m2, both dense, that are promoted");
}

// What this build has no kernels for is refused in the same words.
TEST(Validate, RefusesWhatHasNoKernels) {
  EXPECT_TRUE(Validate(Valid()).ok());
  Problem problem = Valid(DataType::kE4m3);
  if (const absl::Status status = Validate(problem); !status.ok()) {
    EXPECT_EQ(status.code(), kUnserved);
    EXPECT_NE(status.message().find("problem.a_type is e4m3; served: "),
              std::string::npos)
        << status;
  }
}

}  // namespace
}  // namespace gemmd::jit
