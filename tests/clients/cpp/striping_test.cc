#include "clients/cpp/striping.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace gemmd::client {
namespace {

v1::TensorInfo Matrix(v1::DataType type, int64_t rows, int64_t columns) {
  v1::TensorInfo info;
  info.set_dtype(type);
  info.set_rows(rows);
  info.set_columns(columns);
  info.set_count(1);
  info.set_version(0);
  return info;
}

v1::Layout Pitch(int64_t leading_dimension) {
  v1::Layout layout;
  layout.set_leading_dimension(leading_dimension);
  return layout;
}

// "lines@offset+bytes,padding" of each.
std::string Text(const std::vector<Stripe>& stripes) {
  std::string text;
  for (const Stripe& stripe : stripes) {
    absl::StrAppend(&text, stripe.lines.first(), "-",
                    stripe.lines.first() + stripe.lines.count(), "@",
                    stripe.offset, "+", stripe.bytes, ",", stripe.padding, " ");
  }
  return text;
}

TEST(StripingTest, EveryLineIsInOneStripe) {
  const v1::TensorInfo info = Matrix(v1::DATA_TYPE_F32, 10, 3);
  EXPECT_EQ(Text(SplitLines(info, {}, 120, 4)),
            "0-2@0+24,0 2-5@24+36,0 5-7@60+24,0 7-10@84+36,0 ");
  // Not more than lines.
  EXPECT_EQ(Text(SplitLines(Matrix(v1::DATA_TYPE_F32, 2, 3), {}, 24, 4)),
            "0-1@0+12,0 1-2@12+12,0 ");
}

TEST(StripingTest, PaddingBelongsToNobody) {
  const v1::TensorInfo info = Matrix(v1::DATA_TYPE_F32, 4, 3);
  // Lines of 12 bytes, 20 apart; the last one without padding.
  EXPECT_EQ(Text(SplitLines(info, Pitch(5), 72, 2)), "0-2@0+32,8 2-4@40+32,0 ");
}

TEST(StripingTest, LinesAreThoseOfAllMatricesInTheTensorsOrder) {
  v1::TensorInfo info = Matrix(v1::DATA_TYPE_BF16, 5, 2);
  info.set_order(v1::ORDER_COLUMN_MAJOR);
  info.set_count(3);
  EXPECT_EQ(Text(SplitLines(info, {}, 60, 2)), "0-3@0+30,0 3-6@30+30,0 ");
}

TEST(StripingTest, LinesOfBitsBeginAtBytes) {
  EXPECT_EQ(Text(SplitLines(Matrix(v1::DATA_TYPE_B1, 4, 13), {}, 8, 2)),
            "0-2@0+4,0 2-4@4+4,0 ");
  EXPECT_EQ(Text(SplitLines(Matrix(v1::DATA_TYPE_S4, 2, 3), Pitch(6), 5, 2)),
            "0-1@0+2,1 1-2@3+2,0 ");
}

TEST(StripingTest, OfCompositeLinesBytesAreCounted) {
  v1::TensorInfo info = Matrix(v1::DATA_TYPE_BF16, 2, 8);
  info.set_sparsity(v1::SPARSITY_2_4);
  for (const v1::Layout& layout : {Pitch(9), v1::Layout()}) {
    EXPECT_EQ(Text(SplitLines(info, layout, 18, 2)), "0-1@0+9,0 1-2@9+9,0 ");
  }
  EXPECT_TRUE(SplitLines(info, Pitch(20), 18, 2).empty());
}

TEST(StripingTest, WhatIsNotSharedOutGoesByOne) {
  const v1::TensorInfo info = Matrix(v1::DATA_TYPE_F32, 4, 3);
  EXPECT_TRUE(SplitLines(Matrix(v1::DATA_TYPE_F32, 1, 12), {}, 48, 4).empty());
  // Other bytes than the tensor has are the daemon's to refuse.
  EXPECT_TRUE(SplitLines(info, {}, 3, 4).empty());
  EXPECT_TRUE(SplitLines(info, {}, 24, 4).empty());
  EXPECT_TRUE(SplitLines(info, {}, 47, 4).empty());
  EXPECT_TRUE(SplitLines(info, {}, 50, 4).empty());
  EXPECT_TRUE(SplitLines(info, Pitch(5), 60, 4).empty());
  EXPECT_TRUE(SplitLines(info, Pitch(5), 81, 4).empty());
  EXPECT_TRUE(SplitLines(info, {}, 0, 4).empty());
  // Matrices apart are not parts of one run of lines.
  v1::Layout apart;
  apart.set_batch_stride(12);
  EXPECT_TRUE(SplitLines(info, apart, 48, 4).empty());
  // A daemon that takes no parts says no version.
  v1::TensorInfo old = info;
  old.clear_version();
  EXPECT_TRUE(SplitLines(old, {}, 48, 4).empty());
}

TEST(StripingTest, BytesDecideWhetherItPays) {
  EXPECT_EQ(ConnectionsFor({.connections = 5, .least_bytes = 100}, 99), 1);
  EXPECT_EQ(ConnectionsFor({.connections = 5, .least_bytes = 100}, 100), 5);
  EXPECT_EQ(ConnectionsFor({.connections = 50, .least_bytes = 0}, 1), 8);
  EXPECT_EQ(ConnectionsFor({.connections = -1, .least_bytes = 0}, 1), 1);
  const int of_this_machine = ConnectionsFor({}, uint64_t{1} << 40);
  EXPECT_GE(of_this_machine, 1);
  EXPECT_LE(of_this_machine, 8);
}

}  // namespace
}  // namespace gemmd::client
