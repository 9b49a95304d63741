#include "service/rpc/frame_counter.h"

#include <gtest/gtest.h>

#include <string>

namespace gemmd::rpc {
namespace {

constexpr char kData = 0;
constexpr char kHeaders = 1;
constexpr char kContinuation = 9;

std::string Frame(char type, char stream, const std::string& payload) {
  const std::string header = {0,
                              static_cast<char>(payload.size() >> 8),
                              static_cast<char>(payload.size()),
                              type,
                              0,
                              0,
                              0,
                              0,
                              stream};
  return header + payload;
}

const std::string& Preface() {
  static const auto& preface =
      *new std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  return preface;
}

TEST(FrameCounterTest, CountsStreamsAndNotTheirTrailers) {
  FrameCounter counter;
  EXPECT_EQ(counter.Count(Preface()).calls, 0);
  EXPECT_EQ(counter.Count(Frame(4, 0, "")).calls, 0);  // Settings.
  EXPECT_EQ(counter
                .Count(Frame(kHeaders, 1, "name") + Frame(kData, 1, "bytes") +
                       Frame(kHeaders, 3, ""))
                .calls,
            2);
  EXPECT_EQ(counter.Count(Frame(kHeaders, 1, "trailer")).calls, 0);
  EXPECT_EQ(counter.Count(Frame(kHeaders, 5, "")).calls, 1);
}

TEST(FrameCounterTest, WhatAFrameHoldsIsNoFrame) {
  FrameCounter counter;
  counter.Count(Preface());
  EXPECT_EQ(counter
                .Count(Frame(kData, 1,
                             Frame(kHeaders, 3, "") + std::string(300, '\1')))
                .calls,
            0);
}

TEST(FrameCounterTest, FramesMayArriveByteByByte) {
  FrameCounter counter;
  int64_t begun = 0;
  for (const char byte : Preface() + Frame(kHeaders, 1, "name") +
                             Frame(kData, 1, "bytes") +
                             Frame(kHeaders, 3, "")) {
    begun += counter.Count({&byte, 1}).calls;
  }
  EXPECT_EQ(begun, 2);
}

TEST(FrameCounterTest, WhatBringsNeitherCallNorBytesIsIdle) {
  FrameCounter counter;
  counter.Count(Preface());
  const std::string call = Frame(kHeaders, 1, "name");
  EXPECT_EQ(counter.Count(call + Frame(kData, 1, "b")).idle, 0);
  EXPECT_EQ(counter.Count(Frame(kData, 1, "")).idle, 1);
  for (const char type : {2, 3, 4, 6, 7, 8, 0x42}) {
    EXPECT_EQ(counter.Count(Frame(type, 1, "12345678")).idle, 1) << int{type};
  }
  EXPECT_EQ(counter.Count(Frame(kHeaders, 1, "trailer")).idle, 1);
  std::string ping = Frame(6, 0, "12345678");
  EXPECT_EQ(counter.Count(ping).pings, 1);
  ping[4] = 1;  // An answer.
  EXPECT_EQ(counter.Count(ping).pings, 0);
}

TEST(FrameCounterTest, HeadersEnd) {
  for (const size_t bytes : {1, 16384}) {
    FrameCounter counter;
    counter.Count(Preface());
    const std::string more = Frame(kContinuation, 1, std::string(bytes, 'y'));
    int frames = 0;
    counter.Count(Frame(kHeaders, 1, "name"));
    while (frames < 100 && !counter.endless_headers()) {
      counter.Count(more);
      ++frames;
    }
    EXPECT_EQ(frames, bytes == 1 ? 33 : 4);
  }
  // Those of many calls do not add up.
  FrameCounter counter;
  counter.Count(Preface());
  for (char i = 0; i < 100; ++i) {
    counter.Count(Frame(kHeaders, 1, std::string(8192, 'y')) +
                  Frame(kContinuation, 1, "y"));
  }
  EXPECT_FALSE(counter.endless_headers());
}

}  // namespace
}  // namespace gemmd::rpc
