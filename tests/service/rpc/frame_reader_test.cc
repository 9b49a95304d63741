#include "service/rpc/frame_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/service/rpc/http2.h"

namespace gemmd::rpc {
namespace {

// Everything that is found, as text.
std::string Found(FrameReader& reader, absl::Span<const char> bytes) {
  std::string found;
  reader.Read(
      bytes,
      [&](const Frame& frame) {
        absl::StrAppend(&found, "[", int{frame.type}, " ", int{frame.flags},
                        " ", frame.stream, " ", frame.bytes, "]");
      },
      [&](const Frame&, absl::Span<const char> part) {
        absl::StrAppend(&found, absl::string_view(part.data(), part.size()));
      });
  return found;
}

TEST(FrameReaderTest, FindsFramesAfterThePreface) {
  FrameReader reader(FrameReader::kClientPrefaceBytes);
  const std::string bytes =
      std::string(http2::kPreface) + http2::Frame(4, 0, "") +
      http2::Frame(1, 1, "name", 4) + http2::Frame(0, 0x7fffffff, "bytes");
  EXPECT_EQ(Found(reader, bytes),
            "[4 0 0 0][1 4 1 4]name[0 0 2147483647 5]bytes");
}

TEST(FrameReaderTest, AServerHasNoPreface) {
  FrameReader reader(0);
  EXPECT_EQ(Found(reader, http2::Frame(6, 0, "ping")), "[6 0 0 4]ping");
}

TEST(FrameReaderTest, WhatAFrameHoldsIsNoFrame) {
  FrameReader reader(0);
  const std::string inner = http2::Frame(1, 3, "") + std::string(300, 'i');
  EXPECT_EQ(Found(reader, http2::Frame(0, 1, inner)),
            absl::StrCat("[0 0 1 309]", inner));
}

TEST(FrameReaderTest, FramesMayArriveByteByByte) {
  FrameReader reader(FrameReader::kClientPrefaceBytes);
  std::string found;
  for (const char byte : std::string(http2::kPreface) +
                             http2::Frame(1, 1, "name") +
                             http2::Frame(0, 0x10203, "bytes")) {
    found += Found(reader, {&byte, 1});
  }
  EXPECT_EQ(found, "[1 0 1 4]name[0 0 66051 5]bytes");
}

TEST(FrameReaderTest, ThreeKindsOfFramesEndAStream) {
  EXPECT_TRUE((Frame{.type = Frame::kReset}).ends_stream());
  EXPECT_TRUE((Frame{.type = Frame::kData, .flags = 1}).ends_stream());
  EXPECT_TRUE((Frame{.type = Frame::kHeaders, .flags = 5}).ends_stream());
  EXPECT_FALSE((Frame{.type = Frame::kHeaders, .flags = 4}).ends_stream());
  EXPECT_FALSE((Frame{.type = Frame::kPing, .flags = 1}).ends_stream());
}

}  // namespace
}  // namespace gemmd::rpc
