#include "service/rpc/frame_counter.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/service/rpc/http2.h"

namespace gemmd::rpc {
namespace {

using http2::Frame;

constexpr uint8_t kData = rpc::Frame::kData;
constexpr uint8_t kHeaders = rpc::Frame::kHeaders;
constexpr uint8_t kContinuation = rpc::Frame::kContinuation;

class FrameCounterTest : public ::testing::Test {
 protected:
  FrameCounter::Frames Count(const std::string& bytes) {
    frames_.Read(
        bytes,
        [this](const rpc::Frame& frame) { counter_.Count(frame, open_); },
        [](const rpc::Frame&, absl::Span<const char>) {});
    return counter_.Take();
  }

  // Of a client that takes note of what gRPC permits.
  void Acknowledge() { Count(Frame(4, 0, "", rpc::Frame::kAck)); }

  bool open_ = true;  // The streams.
  FrameReader frames_{0};
  FrameCounter counter_;
};

TEST_F(FrameCounterTest, CountsStreamsAndNotTheirTrailers) {
  EXPECT_EQ(Count(Frame(4, 0, "")).calls, 0);  // Settings.
  EXPECT_EQ(Count(Frame(kHeaders, 1, "name") + Frame(kData, 1, "bytes") +
                  Frame(kHeaders, 3, ""))
                .calls,
            2);
  EXPECT_EQ(Count(Frame(kHeaders, 1, "trailer")).calls, 0);
  EXPECT_EQ(Count(Frame(kHeaders, 5, "")).calls, 1);
}

// gRPC passes over it, and takes lower numbers after it.
TEST_F(FrameCounterTest, WhatBeginsWithAnEvenNumberIsNoCall) {
  const auto even = Count(Frame(kHeaders, 0x7ffffffe, "name"));
  EXPECT_EQ(even.calls, 0);
  EXPECT_EQ(even.idle, 1);
  EXPECT_EQ(Count(Frame(kHeaders, 1, "name")).calls, 1);
}

TEST_F(FrameCounterTest, WhatBringsNeitherCallNorBytesIsIdle) {
  const std::string call = Frame(kHeaders, 1, "name");
  EXPECT_EQ(Count(call + Frame(kData, 1, std::string(64, 'b'))).idle, 0);
  EXPECT_EQ(Count(Frame(kData, 1, std::string(63, 'b'))).idle, 1);
  EXPECT_EQ(Count(Frame(kData, 1, "")).idle, 1);
  for (const uint8_t type : {2, 3, 4, 6, 7, 8, 0x42}) {
    EXPECT_EQ(Count(Frame(type, 1, "12345678")).idle, 1) << int{type};
  }
  EXPECT_EQ(Count(Frame(kHeaders, 1, "trailer")).idle, 1);
  EXPECT_EQ(Count(Frame(6, 0, "12345678")).pings, 1);
  EXPECT_EQ(Count(Frame(6, 0, "12345678", rpc::Frame::kAck)).pings, 0);
  EXPECT_EQ(Count(Frame(3, 1, "1234")).resets, 1);
  EXPECT_EQ(Count(Frame(4, 1, "1234")).resets, 0);
}

// What a frame brings beside nothing is work too: 64 bytes as much as a frame.
TEST_F(FrameCounterTest, LongFramesCountForMany) {
  const std::string bytes(16384, 'y');
  Count(Frame(kHeaders, 1, bytes));
  for (const uint8_t type : {1, 4, 7, 0x42}) {
    EXPECT_EQ(Count(Frame(type, 1, bytes)).idle, 257) << int{type};
  }
  // Trailers go on as headers do.
  const std::string more = Frame(kContinuation, 1, bytes);
  EXPECT_EQ(Count(Frame(kHeaders, 1, "trailer") + more).idle, 258);
  EXPECT_EQ(Count(Frame(kHeaders, 3, "name") + more).idle, 0);
  EXPECT_EQ(Count(Frame(kData, 3, bytes)).idle, 0);
}

// As many as its bytes would bring with them, and itself.
TEST_F(FrameCounterTest, DataForCallsThatHaveEndedIsIdle) {
  open_ = false;
  EXPECT_EQ(Count(Frame(kData, 1, std::string(16384, 'b'))).idle, 17);
  EXPECT_EQ(Count(Frame(kData, 1, std::string(256, 'b'))).idle, 1);
  EXPECT_EQ(Count(Frame(kData, 1, "")).idle, 1);
}

TEST_F(FrameCounterTest, HeadersEnd) {
  for (const size_t bytes : {1, 16384}) {
    const std::string more = Frame(kContinuation, 1, std::string(bytes, 'y'));
    int frames = 0;
    counter_ = FrameCounter();
    Acknowledge();
    Count(Frame(kHeaders, 1, "name"));
    while (frames < 100 && !counter_.endless_headers()) {
      Count(more);
      ++frames;
    }
    EXPECT_EQ(frames, bytes == 1 ? 33 : 4);
  }
  // Those of many calls do not add up.
  counter_ = FrameCounter();
  Acknowledge();
  for (uint32_t i = 0; i < 100; ++i) {
    Count(Frame(kHeaders, 2 * i + 1, std::string(8192, 'y')) +
          Frame(kContinuation, 2 * i + 1, "y"));
  }
  EXPECT_FALSE(counter_.endless_headers());
}

TEST_F(FrameCounterTest, HeadersAddUpUntilSettingsAreAcknowledged) {
  const auto call = [](uint32_t i) {
    return Frame(kHeaders, 2 * i + 1, std::string(1000, 'y')) +
           Frame(kContinuation, 2 * i + 1, std::string(24, 'y')) +
           Frame(kData, 2 * i + 1, std::string(1000, 'y'));
  };
  Count(Frame(4, 0, "own"));
  uint32_t calls = 0;
  while (calls < 100 && !counter_.endless_headers()) Count(call(calls++));
  EXPECT_EQ(calls, 17);
  counter_ = FrameCounter();
  for (uint32_t i = 0; i < 16; ++i) Count(call(i));
  Acknowledge();
  for (uint32_t i = 16; i < 100; ++i) Count(call(i));
  EXPECT_FALSE(counter_.endless_headers());
}

}  // namespace
}  // namespace gemmd::rpc
