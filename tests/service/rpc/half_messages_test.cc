#include "service/rpc/half_messages.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/service/rpc/http2.h"

namespace gemmd::rpc {
namespace {

class HalfMessagesTest : public ::testing::Test {
 protected:
  HalfMessagesTest() { Arrive(std::string(http2::kPreface)); }

  // Returns the bytes of halves, with what has arrived.
  int64_t Arrive(const std::string& bytes) {
    Look(bytes);
    return half_.bytes();
  }
  void Look(absl::Span<const char> bytes) {
    half_.Arrive(bytes);
    frames_.Read(
        bytes, [this](const Frame& frame) { half_.Begin(frame); },
        [this](const Frame& frame, absl::Span<const char> part) {
          if (frame.type == Frame::kData) half_.Data(frame.stream, part);
        });
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

// gRPC passes over it, and what it brings is held by nobody; those that follow
// are calls all the same, though their numbers are lower.
TEST_F(HalfMessagesTest, WhatBeginsWithAnEvenNumberIsNoStream) {
  EXPECT_EQ(Arrive(http2::Headers(0x7ffffffe) +
                   http2::Message(0x7ffffffe, 1000, 40000)),
            0);
  EXPECT_FALSE(half_.IsOpen(0x7ffffffe));
  EXPECT_EQ(half_.last_stream(), 0u);
  EXPECT_EQ(Arrive(http2::Headers(1) + http2::Message(1, 10, 20)), 15);
}

// gRPC passes over what begins after its last word, and holds none of it.
TEST_F(HalfMessagesTest, WhatBeginsWhenTheDaemonHasGoneAwayIsNoStream) {
  const auto go_away = [this](uint32_t last, size_t part) {
    half_.BeginGoAway();
    const std::string says = http2::Number(last, 4) + "why";
    for (size_t at = 0; at < says.size(); at += part) {
      half_.GoAway(absl::MakeConstSpan(says).subspan(at, part));
    }
  };
  go_away(0x7fffffff, 1);  // So that streams which are on their way are served.
  for (const uint32_t stream : {1, 3}) {
    Arrive(http2::Headers(stream) + http2::Message(stream, 10, 20));
  }
  EXPECT_EQ(half_.bytes(), 30);
  go_away(1, 7);
  EXPECT_EQ(half_.bytes(), 15);
  EXPECT_EQ(Arrive(http2::Headers(5) + http2::Message(5, 10, 20)), 15);
  EXPECT_FALSE(half_.IsOpen(5));
  EXPECT_EQ(Arrive(http2::More(1, 10)), 0);
}

TEST_F(HalfMessagesTest, PartsCountForTheBuffersThatTheyKeep) {
  const std::string much =
      http2::Data(1, http2::Number(40000, 5) + std::string(40000, 'm'));
  Arrive(http2::Headers(1) + http2::Headers(3) + http2::Message(3, 0, 40000));
  std::vector<std::string> buffers;
  for (int i = 0; i < 100; ++i) {
    buffers.push_back(much + http2::More(3, 64));
    Look(buffers.back());
  }
  EXPECT_EQ(half_.bytes(), 5 + 100 * 64);
  EXPECT_GT(half_.counted_bytes(), 100 * 40000 / 4);
  // Whatever else comes to the last of them counts, too.
  const int64_t before = half_.counted_bytes();
  std::string last = http2::More(3, 64) + much;
  const size_t first = last.size() - much.size();
  Look(absl::MakeConstSpan(last).subspan(0, first));
  Look(absl::MakeConstSpan(last).subspan(first));
  EXPECT_GE(half_.counted_bytes(), before + 40000 / 4);
  EXPECT_EQ(Arrive(http2::Reset(3)), 0);
  EXPECT_EQ(half_.counted_bytes(), 0);
}

TEST_F(HalfMessagesTest, MessagesThatComeTogetherCountForThemselves) {
  for (const uint32_t stream : {1, 3, 5, 7}) {
    Arrive(http2::Headers(stream) + http2::Message(stream, 0, 1 << 20));
  }
  for (int i = 0; i < 32; ++i) {
    std::string all;
    for (const uint32_t stream : {1, 3, 5, 7}) {
      all += http2::More(stream, 16 << 10);
    }
    Arrive(all);
    EXPECT_EQ(half_.counted_bytes(), half_.bytes());
  }
}

TEST_F(HalfMessagesTest, TheLongestLengthIsALength) {
  Arrive(http2::Headers(1));
  EXPECT_EQ(Arrive(http2::Message(1, 9, (int64_t{1} << 32) - 1)), 14);
}

}  // namespace
}  // namespace gemmd::rpc
