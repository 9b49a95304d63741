#include "service/rpc/incoming_lines.h"

#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "service/rpc/connection.h"

namespace gemmd::rpc {
namespace {

using jit::DataType;
using jit::MatrixLayout;
using jit::Order;

MatrixLayout Bytes(int64_t rows, int64_t columns, int64_t count = 1) {
  return {DataType::kU8, Order::kRowMajor, rows, columns, count};
}

// Lines `pitch` apart, matrices `stride`.
WireLayout Wire(const MatrixLayout& layout, int64_t pitch, int64_t stride) {
  v1::Layout wire;
  wire.set_leading_dimension(pitch);
  wire.set_batch_stride(stride);
  return ToWireLayout(wire, layout, "layout").value();
}

absl::Status Append(IncomingLines& lines, const std::string& bytes) {
  const grpc::Slice slice(bytes);
  grpc::ByteBuffer buffer(&slice, 1);
  Message message(buffer);
  Pieces pieces = message.pieces();
  return lines.Append(std::move(message), std::move(pieces));
}

// What is on the device when `wire` comes in chunks of `chunk` bytes: each line
// where its number says, elements that no part brought as '?'.
std::string Deliver(const MatrixLayout& layout, const WireLayout& wire_layout,
                    const std::string& wire, size_t chunk) {
  IncomingLines lines("x", layout, wire_layout);
  std::string device(layout.lines() * layout.width_bytes(), '?');
  const auto take = [&](const IncomingLines::Part& part) {
    const std::string bytes = Join(lines.Front(part.bytes));
    const int64_t width =
        part.lines.bytes > 0 ? part.lines.bytes : layout.width_bytes();
    for (int64_t i = 0; i < part.lines.count; ++i) {
      std::memcpy(device.data() +
                      (part.lines.first + i) * layout.width_bytes() +
                      part.lines.first_byte,
                  bytes.data() + i * lines.pitch_bytes(), width);
    }
    lines.Drop(part.bytes);
  };
  for (size_t at = 0; at < wire.size(); at += chunk) {
    EXPECT_TRUE(Append(lines, wire.substr(at, chunk)).ok());
    for (auto part = lines.Next(); part.bytes > 0; part = lines.Next()) {
      take(part);
    }
  }
  EXPECT_TRUE(lines.CheckComplete().ok()) << lines.CheckComplete();
  EXPECT_EQ(lines.size(), 0);
  return device;
}

TEST(IncomingLinesTest, EveryByteComesWhereItBelongsHoweverItIsCut) {
  // Two lines of three, five apart; two matrices.
  const MatrixLayout layout = Bytes(2, 3, 2);
  const std::string tight = "abc--def--ghi--jkl";
  const std::string gap = "abc--def.....ghi--jkl";  // 13 apart.
  const std::string close = "abc--defghi--jkl--";   // 8: without padding.
  for (size_t chunk = 1; chunk <= 21; ++chunk) {
    EXPECT_EQ(Deliver(layout, Wire(layout, 5, 10), tight, chunk),
              "abcdefghijkl");
    EXPECT_EQ(Deliver(layout, Wire(layout, 5, 13), gap, chunk), "abcdefghijkl");
    EXPECT_EQ(Deliver(layout, Wire(layout, 5, 8), close, chunk),
              "abcdefghijkl");
  }
}

// Lines as narrow as the padding behind the last one: nothing of that is taken
// for another matrix.
TEST(IncomingLinesTest, NothingGoesBehindTheLastMatrix) {
  const MatrixLayout layout = Bytes(2, 2, 2);
  const std::string close = "ab---cdef---gh---";  // 7 apart.
  for (size_t chunk = 1; chunk <= close.size(); ++chunk) {
    EXPECT_EQ(Deliver(layout, Wire(layout, 5, 7), close, chunk), "abcdefgh");
  }
}

TEST(IncomingLinesTest, LongLinesGoInPieces) {
  const MatrixLayout layout = Bytes(2, 5 * kCallAllowanceBytes + 1);
  std::string wire(layout.lines() * layout.width_bytes(), '\0');
  for (size_t i = 0; i < wire.size(); ++i) {
    wire[i] = static_cast<char>(i * 31 + i / 4096);
  }
  const WireLayout as_is = Wire(layout, 0, 0);
  IncomingLines lines("x", layout, as_is);
  ASSERT_TRUE(Append(lines, wire.substr(0, kCallAllowanceBytes)).ok());
  EXPECT_EQ(lines.Next().bytes, 0);
  ASSERT_TRUE(Append(lines, wire.substr(kCallAllowanceBytes, 100)).ok());
  EXPECT_EQ(lines.Next().bytes, kCallAllowanceBytes);
  for (const size_t chunk : {size_t{70000}, size_t{100001}, wire.size()}) {
    EXPECT_EQ(Deliver(layout, as_is, wire, chunk), wire);
  }
}

TEST(IncomingLinesTest, ThePartThatFollowsOneThatIsUnderWay) {
  IncomingLines lines("x", Bytes(4, 3), Wire(Bytes(4, 3), 5, 0));
  ASSERT_TRUE(Append(lines, "abc--def--g").ok());
  const IncomingLines::Part first = lines.Next();
  EXPECT_EQ(first.bytes, 8);
  EXPECT_EQ(first.lines.count, 2);
  // Padding, then nothing before the line is whole.
  EXPECT_EQ(lines.Next(8).bytes, 2);
  EXPECT_EQ(lines.Next(8).lines.count, 0);
  EXPECT_EQ(lines.Next(10).bytes, 0);
  EXPECT_EQ(lines.Next(11).bytes, 0);
}

TEST(IncomingLinesTest, TooMuchAndTooLittleAreRefused) {
  IncomingLines lines("x", Bytes(2, 3), Wire(Bytes(2, 3), 5, 0));
  ASSERT_TRUE(Append(lines, "abc--de").ok());
  EXPECT_EQ(lines.CheckComplete().message(),
            "x has 7 bytes; allowed for its shape: 8 or 10");
  ASSERT_TRUE(Append(lines, "f").ok());
  EXPECT_TRUE(lines.CheckComplete().ok());
  lines.Drop(5);
  EXPECT_TRUE(lines.CheckComplete().ok());
  EXPECT_EQ(Append(lines, "--!").message(),
            "x goes beyond the 10 bytes of its shape");
  EXPECT_TRUE(Append(lines, "--").ok());
  EXPECT_TRUE(lines.CheckComplete().ok());
}

}  // namespace
}  // namespace gemmd::rpc
