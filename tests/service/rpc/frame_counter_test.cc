#include "service/rpc/frame_counter.h"

#include <gtest/gtest.h>

#include <string>

namespace gemmd::rpc {
namespace {

constexpr char kData = 0;
constexpr char kHeaders = 1;

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
  EXPECT_EQ(counter.Count(Preface()), 0);
  EXPECT_EQ(counter.Count(Frame(4, 0, "")), 0);  // Settings.
  EXPECT_EQ(counter.Count(Frame(kHeaders, 1, "name") +
                          Frame(kData, 1, "bytes") + Frame(kHeaders, 3, "")),
            2);
  EXPECT_EQ(counter.Count(Frame(kHeaders, 1, "trailer")), 0);
  EXPECT_EQ(counter.Count(Frame(kHeaders, 5, "")), 1);
}

TEST(FrameCounterTest, WhatAFrameHoldsIsNoFrame) {
  FrameCounter counter;
  counter.Count(Preface());
  EXPECT_EQ(counter.Count(Frame(
                kData, 1, Frame(kHeaders, 3, "") + std::string(300, '\1'))),
            0);
}

TEST(FrameCounterTest, FramesMayArriveByteByByte) {
  FrameCounter counter;
  int64_t begun = 0;
  for (const char byte : Preface() + Frame(kHeaders, 1, "name") +
                             Frame(kData, 1, "bytes") +
                             Frame(kHeaders, 3, "")) {
    begun += counter.Count({&byte, 1});
  }
  EXPECT_EQ(begun, 2);
}

}  // namespace
}  // namespace gemmd::rpc
