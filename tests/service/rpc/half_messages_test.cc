#include "service/rpc/half_messages.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/service/rpc/http2.h"

namespace gemmd::rpc {
namespace {

class HalfMessagesTest : public ::testing::Test {
 protected:
  HalfMessagesTest() { Arrive(std::string(http2::kPreface)); }

  // Returns the bytes of halves, with what has arrived.
  int64_t Arrive(const std::string& bytes) {
    frames_.Read(
        bytes, [this](const Frame& frame) { half_.Begin(frame); },
        [this](const Frame& frame, absl::Span<const char> part) {
          if (frame.type == Frame::kData) half_.Data(frame.stream, part);
        });
    return half_.bytes();
  }

  FrameReader frames_{FrameReader::kClientPrefaceBytes};
  HalfMessages half_;
};

TEST_F(HalfMessagesTest, AMessageCountsUntilItIsComplete) {
  EXPECT_EQ(Arrive(http2::Headers(1)), 0);
  EXPECT_EQ(Arrive(http2::Message(1, 1000, 40000)), 1005);
  EXPECT_EQ(Arrive(http2::More(1, 38999)), 40004);
  EXPECT_EQ(Arrive(http2::More(1, 1)), 0);
  EXPECT_EQ(Arrive(http2::Message(1, 7, 8)), 12);  // The next one.
}

TEST_F(HalfMessagesTest, MessagesAndFramesMayArriveByteByByte) {
  const std::string bytes = http2::Headers(1) + http2::Message(1, 0, 0) +
                            http2::Message(1, 300, 300) +
                            http2::Message(1, 70, 1 << 30);
  for (const char byte : bytes) Arrive({byte});
  EXPECT_EQ(half_.bytes(), 75);
}

TEST_F(HalfMessagesTest, AFrameMayHoldManyMessages) {
  std::string messages;
  for (int i = 0; i < 3; ++i) messages += http2::Number(4, 5) + "four";
  EXPECT_EQ(Arrive(http2::Headers(1) + http2::Data(1, messages + '\0')), 1);
}

TEST_F(HalfMessagesTest, StreamsCountTogether) {
  Arrive(http2::Headers(1) + http2::Headers(3));
  EXPECT_EQ(Arrive(http2::Message(1, 10, 20) + http2::Message(3, 100, 200)),
            120);
  EXPECT_EQ(Arrive(http2::More(1, 10)), 105);
}

TEST_F(HalfMessagesTest, ThoseOfStreamsThatBeganLaterCanBeLeftOut) {
  Arrive(http2::Headers(1) + http2::Message(1, 10, 20));
  const uint32_t last = half_.last_stream();
  Arrive(http2::Headers(3) + http2::Message(3, 100, 200));
  EXPECT_EQ(half_.BytesUntil(last), 15);
  EXPECT_EQ(half_.BytesUntil(half_.last_stream()), 120);
}

TEST_F(HalfMessagesTest, AStreamThatOneSideHasEndedHoldsNothing) {
  for (const uint32_t stream : {1, 3, 5}) {
    Arrive(http2::Headers(stream) + http2::Message(stream, 10, 20));
  }
  EXPECT_EQ(Arrive(http2::Reset(1)), 30);
  half_.End(3);
  EXPECT_EQ(half_.bytes(), 15);
  EXPECT_EQ(Arrive(http2::Frame(Frame::kData, 5, "", Frame::kEndStream)), 0);
  // However much of them was on its way.
  EXPECT_EQ(Arrive(http2::More(1, 1000) + http2::More(3, 1000)), 0);
  // It does not come back.
  EXPECT_EQ(Arrive(http2::Trailers(3) + http2::Message(3, 10, 20)), 0);
}

TEST_F(HalfMessagesTest, WhatIsNoDataIsNoMessage) {
  Arrive(http2::Headers(1));
  EXPECT_EQ(Arrive(http2::Frame(6, 0, "12345678")), 0);
  EXPECT_EQ(Arrive(http2::More(7, 1000)), 0);  // No such stream.
}

TEST_F(HalfMessagesTest, TheLongestLengthIsALength) {
  Arrive(http2::Headers(1));
  EXPECT_EQ(Arrive(http2::Message(1, 9, (int64_t{1} << 32) - 1)), 14);
}

}  // namespace
}  // namespace gemmd::rpc
