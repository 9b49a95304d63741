#include "service/rpc/wire_layout.h"

#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "jit/problem/problem.h"

namespace gemmd::rpc {
namespace {

using jit::DataType;
using jit::MatrixLayout;
using jit::Order;

v1::Layout Layout(int order, int64_t leading_dimension) {
  v1::Layout layout;
  layout.set_order(static_cast<v1::Order>(order));
  layout.set_leading_dimension(leading_dimension);
  return layout;
}

constexpr MatrixLayout kRows = {DataType::kBf16, Order::kRowMajor, 3, 5};

TEST(WireLayoutTest, TheLastLineMayLackItsPadding) {
  const auto wire = ToWireLayout(Layout(0, 7), kRows, "a.inline");
  ASSERT_TRUE(wire.ok());
  EXPECT_EQ(wire->pitch_bytes, 14);
  EXPECT_EQ(wire->least_bytes, 2 * 14 + 10);
  EXPECT_EQ(wire->most_bytes, 3 * 14);
  EXPECT_TRUE(CheckLength(*wire, 38, "a").ok());
  EXPECT_TRUE(CheckLength(*wire, 42, "a").ok());
  EXPECT_EQ(CheckLength(*wire, 40, "a").message(),
            "a has 40 bytes; allowed for its shape: 38 or 42");
}

TEST(WireLayoutTest, ZeroMeansTight) {
  const auto wire = ToWireLayout(Layout(0, 0), kRows, "a.inline");
  ASSERT_TRUE(wire.ok());
  EXPECT_EQ(wire->least_bytes, 30);
  EXPECT_EQ(wire->most_bytes, 30);
  EXPECT_EQ(CheckLength(*wire, 0, "a").message(),
            "a has 0 bytes; allowed for its shape: 30");
}

TEST(WireLayoutTest, RefusesALeadingDimensionOutOfRange) {
  for (const int64_t bad : {int64_t{4}, int64_t{-1}, jit::kMaxDimension + 1}) {
    const auto wire = ToWireLayout(Layout(0, bad), kRows, "a.inline");
    EXPECT_EQ(wire.status().message(),
              "a.inline.leading_dimension is " + std::to_string(bad) +
                  "; allowed: 0 or 5 to " + std::to_string(jit::kMaxDimension));
  }
}

// At most 64 MiB, or 32 times the elements.
TEST(WireLayoutTest, WhatIsSentIsNotMostlyPadding) {
  const auto error = [](int64_t leading, const MatrixLayout& matrix) {
    EXPECT_TRUE(ToWireLayout(Layout(0, leading), matrix, "d.inline").ok());
    const auto wire = ToSentLayout(Layout(0, leading), matrix, "d.inline");
    return std::string(wire.status().message());
  };
  // 2 * 2 * 16777213 + 10 bytes are 64 MiB, but for 2.
  EXPECT_EQ(error(16777213, kRows), "");
  EXPECT_EQ(error(16777214, kRows),
            "d.inline.leading_dimension is 16777214; allowed: 0 or 5 to "
            "16777213");
  const MatrixLayout narrow = {DataType::kF32, Order::kRowMajor, 1 << 20, 1};
  EXPECT_EQ(error(32, narrow), "");
  EXPECT_EQ(error(33, narrow),
            "d.inline.leading_dimension is 33; allowed: 0 or 1 to 32");
  const MatrixLayout bits = {DataType::kB1, Order::kRowMajor, 1 << 24, 8};
  EXPECT_EQ(error(264, bits),
            "d.inline.leading_dimension is 264; allowed: 0 or 8 to 256, a "
            "multiple of 8");
  const MatrixLayout batch = {DataType::kF32, Order::kRowMajor, 3, 5, 1 << 20};
  EXPECT_EQ(error(160, batch), "");
  EXPECT_EQ(error(161, batch),
            "d.inline.leading_dimension is 161; allowed: 0 or 5 to 160");
}

TEST(WireLayoutTest, WhereNoPaddingIsSentThereIsAnyAmountOfIt) {
  const MatrixLayout line = {DataType::kF32, Order::kRowMajor, 1, 5};
  const MatrixLayout none = {DataType::kF32, Order::kRowMajor, 1 << 30, 0};
  const MatrixLayout wide = {DataType::kF32, Order::kRowMajor,
                             jit::kMaxDimension, jit::kMaxDimension};
  for (const MatrixLayout& matrix : {line, none, wide}) {
    EXPECT_TRUE(ToSentLayout(Layout(0, jit::kMaxDimension), matrix, "d").ok());
  }
}

TEST(WireLayoutTest, MatricesThatAreSentFollowEachOther) {
  const MatrixLayout batch = {DataType::kF32, Order::kRowMajor, 3, 5, 2};
  v1::Layout layout = Layout(0, 5);
  layout.set_batch_stride(16);
  EXPECT_EQ(ToSentLayout(layout, batch, "d.inline").status().message(),
            "d.inline.batch_stride is 16; allowed here: absent or 15");
}

// Lines of 8 values and 1 byte of metadata: no number of elements has them.
TEST(WireLayoutTest, OfASparseMatrixBytesAreCounted) {
  const MatrixLayout sparse = {
      DataType::kBf16, Order::kRowMajor, 3, 8, 2, true};
  auto wire = ToWireLayout(Layout(0, 0), sparse, "a.inline");
  ASSERT_TRUE(wire.ok());
  EXPECT_EQ(wire->pitch_bytes, 9);
  EXPECT_EQ(wire->most_bytes, 54);
  EXPECT_EQ(CheckLength(*wire, 96, "a").message(),
            "a has 96 bytes; allowed for its shape: 54");
  v1::Layout layout = Layout(0, 10);
  layout.set_batch_stride(33);
  wire = ToWireLayout(layout, sparse, "a.inline");
  ASSERT_TRUE(wire.ok());
  EXPECT_EQ(wire->pitch_bytes, 10);
  EXPECT_EQ(wire->matrix_bytes, 33);
  EXPECT_EQ(wire->least_bytes, 33 + 29);
  EXPECT_EQ(CheckTight(*wire, sparse, "a").message(),
            "a.batch_stride is 33; allowed here: absent or 30");
  EXPECT_EQ(ToWireLayout(Layout(0, 8), sparse, "a.inline").status().message(),
            absl::StrCat("a.inline.leading_dimension is 8; allowed: 0 or 9 to ",
                         jit::kMaxDimension));
}

// Lines of 3 bytes of elements, a scale and a zero point.
TEST(WireLayoutTest, OfAQuantizedMatrixBytesAreCounted) {
  MatrixLayout weights = {DataType::kU4, Order::kColumnMajor, 5, 3, 2};
  weights.quantization = {.group = 32, .zero_points = true};
  auto wire = ToWireLayout(Layout(0, 0), weights, "b.inline");
  ASSERT_TRUE(wire.ok());
  EXPECT_EQ(wire->pitch_bytes, 8);
  EXPECT_EQ(wire->most_bytes, 48);
  v1::Layout layout = Layout(2, 11);
  layout.set_batch_stride(35);
  wire = ToWireLayout(layout, weights, "b.inline");
  ASSERT_TRUE(wire.ok());
  EXPECT_EQ(wire->pitch_bytes, 11);
  EXPECT_EQ(wire->matrix_bytes, 35);
  EXPECT_EQ(wire->least_bytes, 35 + 30);
  EXPECT_EQ(CheckTight(*wire, weights, "b").message(),
            "b.batch_stride is 35; allowed here: absent or 33");
  EXPECT_EQ(ToWireLayout(Layout(0, 7), weights, "b.inline").status().message(),
            absl::StrCat("b.inline.leading_dimension is 7; allowed: 0 or 8 to ",
                         jit::kMaxDimension));
}

TEST(WireLayoutTest, LinesOfFourBitsStartAtBytes) {
  const MatrixLayout weights = {DataType::kS4, Order::kRowMajor, 3, 5, 2};
  const auto wire = ToWireLayout(Layout(0, 0), weights, "b.inline");
  ASSERT_TRUE(wire.ok());
  EXPECT_EQ(wire->pitch_bytes, 3);
  EXPECT_EQ(wire->least_bytes, 18);
  EXPECT_EQ(ToWireLayout(Layout(0, 8), weights, "b.inline")->pitch_bytes, 4);
  EXPECT_EQ(ToWireLayout(Layout(0, 7), weights, "b.inline").status().message(),
            absl::StrCat("b.inline.leading_dimension is 7; allowed: 0 or 6 to ",
                         jit::kMaxDimension, ", a multiple of 2"));
  v1::Layout layout;
  layout.set_batch_stride(19);
  EXPECT_EQ(ToWireLayout(layout, weights, "b.inline").status().message(),
            "b.inline.batch_stride is 19; allowed: from 0, a multiple of 2");
}

TEST(WireLayoutTest, RefusesAnOrderThatIsNotTheMatrixs) {
  EXPECT_TRUE(ToWireLayout(Layout(1, 0), kRows, "a.inline").ok());
  EXPECT_EQ(ToWireLayout(Layout(2, 0), kRows, "a.inline").status().message(),
            "a.inline.order is column_major; allowed: row_major, the order of "
            "the matrix");
  EXPECT_FALSE(ToWireLayout(Layout(3, 0), kRows, "a.inline").ok());
}

TEST(WireLayoutTest, EmptyMatricesHaveNoBytes) {
  const MatrixLayout empty = {DataType::kBf16, Order::kRowMajor, 4, 0};
  const auto wire = ToWireLayout(Layout(0, 9), empty, "a.inline");
  ASSERT_TRUE(wire.ok());
  EXPECT_TRUE(CheckLength(*wire, 0, "a").ok());
  EXPECT_FALSE(CheckLength(*wire, 1, "a").ok());
}

TEST(WireLayoutTest, CountsWithoutOverflow) {
  const MatrixLayout huge = {DataType::kF32, Order::kColumnMajor,
                             jit::kMaxDimension, jit::kMaxDimension};
  const auto wire =
      ToWireLayout(Layout(2, jit::kMaxDimension), huge, "d.inline");
  ASSERT_TRUE(wire.ok());
  EXPECT_EQ(wire->least_bytes, std::numeric_limits<int64_t>::max());
  EXPECT_FALSE(CheckLength(*wire, 0, "d").ok());
}

v1::Layout Strided(int64_t leading_dimension, int64_t batch_stride) {
  v1::Layout layout = Layout(0, leading_dimension);
  layout.set_batch_stride(batch_stride);
  return layout;
}

TEST(WireLayoutTest, MatricesOfABatchLieAnyStrideApart) {
  MatrixLayout batch = kRows;
  batch.count = 4;
  const auto tight = ToWireLayout(Layout(0, 7), batch, "a.inline");
  EXPECT_EQ(tight->matrix_bytes, 42);
  EXPECT_EQ(tight->least_bytes, 4 * 42 - 4);
  EXPECT_EQ(tight->most_bytes, 4 * 42);
  const auto wide = ToWireLayout(Strided(7, 100), batch, "a.inline");
  EXPECT_EQ(wide->matrix_bytes, 200);
  EXPECT_EQ(wide->least_bytes, 3 * 200 + 38);
  const auto interleaved = ToWireLayout(Strided(20, 5), batch, "a.inline");
  EXPECT_EQ(interleaved->least_bytes, 3 * 10 + 2 * 40 + 10);
  const auto one = ToWireLayout(Strided(7, 0), batch, "c.inline");
  EXPECT_EQ(one->least_bytes, 38);
  EXPECT_EQ(ToWireLayout(Strided(7, -1), batch, "a.inline").status().message(),
            "a.inline.batch_stride is -1; allowed: from 0");
}

TEST(WireLayoutTest, ResultsAndTensorsAreTight) {
  MatrixLayout batch = kRows;
  batch.count = 4;
  const auto tight = ToWireLayout(Strided(7, 21), batch, "d.inline");
  EXPECT_TRUE(CheckTight(*tight, batch, "d.inline").ok());
  const auto wide = ToWireLayout(Strided(7, 22), batch, "d.inline");
  EXPECT_EQ(CheckTight(*wide, batch, "d.inline").message(),
            "d.inline.batch_stride is 22; allowed here: absent or 21");
  EXPECT_TRUE(CheckTight(*wide, kRows, "d.inline").ok());
}

TEST(WireLayoutTest, WhatIsStreamedComesOneMatrixAfterTheOther) {
  MatrixLayout batch = kRows;  // 3 x 5.
  batch.count = 4;
  for (const int64_t stride : {21, 19, 100}) {  // 19: without last padding.
    const auto apart = ToWireLayout(Strided(7, stride), batch, "a.inline");
    EXPECT_TRUE(CheckApart(*apart, batch, "a.inline").ok()) << stride;
    EXPECT_EQ(IsTight(*apart, batch), stride == 21);
  }
  const auto close = ToWireLayout(Strided(7, 18), batch, "a.inline");
  EXPECT_EQ(CheckApart(*close, batch, "a.inline").message(),
            "a.inline.batch_stride is 18; allowed in a stream, where they come "
            "one after the other: from 19, of a and b also 0");
  const auto one = ToWireLayout(Strided(7, 0), kRows, "a.inline");
  EXPECT_TRUE(CheckApart(*one, kRows, "a.inline").ok());
  EXPECT_TRUE(IsTight(*one, kRows));
  MatrixLayout huge = {DataType::kF32, Order::kRowMajor, jit::kMaxDimension,
                       jit::kMaxDimension, 2};
  const auto counted = ToWireLayout(Strided(0, 1), huge, "a.inline");
  EXPECT_FALSE(CheckApart(*counted, huge, "a.inline").ok());
  EXPECT_FALSE(CheckTight(*counted, huge, "a.inline").ok());
}

// On a device each has bytes of its own: here 30.
TEST(WireLayoutTest, MatricesThatOverlapHaveALimitOfTheirOwn) {
  MatrixLayout batch = kRows;
  batch.count = 4;
  const auto close = ToWireLayout(Strided(0, 2), batch, "a.inline");
  EXPECT_TRUE(CheckOverlap(*close, batch, 120, "a.inline").ok());
  const absl::Status refused = CheckOverlap(*close, batch, 119, "a.inline");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "a.inline.batch_stride is 2, so that 4 matrices overlap, which "
            "have 120 bytes apart; the limit is 119");
  // Whatever is there as often as it is read has been granted.
  for (const v1::Layout& layout : {Layout(0, 0), Layout(0, 7), Strided(0, 15),
                                   Strided(0, 100), Strided(20, 5)}) {
    const auto apart = ToWireLayout(layout, batch, "a.inline");
    EXPECT_TRUE(CheckOverlap(*apart, batch, 1, "a.inline").ok());
  }
  // One for all is one.
  const auto one = ToWireLayout(Strided(0, 0), kRows, "a.inline");
  EXPECT_TRUE(CheckOverlap(*one, kRows, 1, "a.inline").ok());
  MatrixLayout huge = {DataType::kF32, Order::kRowMajor, 1, jit::kMaxDimension,
                       jit::kMaxDimension};
  const auto counted = ToWireLayout(Strided(0, 1), huge, "a.inline");
  EXPECT_FALSE(CheckOverlap(*counted, huge, 1 << 30, "a.inline").ok());
}

TEST(WireLayoutTest, LinesOfBitsStartAtBytes) {
  const MatrixLayout bits = {DataType::kB1, Order::kRowMajor, 3, 13, 2};
  const auto wire = ToWireLayout(Layout(0, 0), bits, "a.inline");
  ASSERT_TRUE(wire.ok());
  EXPECT_EQ(wire->pitch_bytes, 2);
  EXPECT_EQ(wire->least_bytes, 12);
  EXPECT_EQ(ToWireLayout(Layout(0, 24), bits, "a.inline")->pitch_bytes, 3);
  EXPECT_EQ(ToWireLayout(Layout(0, 18), bits, "a.inline").status().message(),
            "a.inline.leading_dimension is 18; allowed: 0 or 16 to " +
                std::to_string(jit::kMaxDimension) + ", a multiple of 8");
  EXPECT_EQ(ToWireLayout(Strided(0, 12), bits, "a.inline").status().message(),
            "a.inline.batch_stride is 12; allowed: from 0, a multiple of 8");
}

}  // namespace
}  // namespace gemmd::rpc
