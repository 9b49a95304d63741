#include "service/rpc/unread_bytes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/service/rpc/http2.h"

namespace gemmd::rpc {
namespace {

constexpr int64_t kMuch = 40000;

class UnreadBytesTest : public ::testing::Test {
 protected:
  // `frames` arrive in a buffer of their own, behind much that nobody keeps.
  // Returns what they count for.
  int64_t ArriveAmongMuch(const std::string& frames) {
    all_.push_back(http2::More(1, kMuch) + frames);
    Arrive(all_.back());
    return unread_.counted_bytes();
  }
  void Arrive(absl::Span<const char> bytes) {
    unread_.Arrive(bytes);
    frames_.Read(
        bytes,
        [this](const Frame& frame) { unread_.Begin(frame, frame.stream != 1); },
        [this](const Frame& frame, absl::Span<const char> part) {
          unread_.Data(frame.stream, std::ssize(part));
        });
  }
  // The daemon lets the client send `bytes` more.
  void Give(uint32_t stream, int64_t bytes) {
    unread_.BeginWindow();
    for (const char byte : http2::Number(bytes, 4)) {
      unread_.Window(stream, {&byte, 1});
    }
  }

  FrameReader frames_{0};
  UnreadBytes unread_;
  std::vector<std::string> all_;
};

TEST_F(UnreadBytesTest, WhatIsNotGivenBackCountsForTheBuffersThatItKeeps) {
  for (int64_t i = 1; i <= 100; ++i) {
    EXPECT_GE(ArriveAmongMuch(http2::Message(3, 59, 59)), i * kMuch / 4);
  }
  Give(3, 50 * 64);
  EXPECT_NEAR(unread_.counted_bytes(), 50 * kMuch / 4, 50 * 64);
  Give(3, 50 * 64 - 1);  // The last of them is not read.
  EXPECT_NEAR(unread_.counted_bytes(), kMuch / 4, 64);
  Give(3, 1);
  EXPECT_EQ(unread_.counted_bytes(), 0);
}

TEST_F(UnreadBytesTest, WhoReadsAtOnceHasNothing) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_LE(ArriveAmongMuch(http2::Message(3, 59, 59)), kMuch / 2);
    Give(3, 64);
    EXPECT_EQ(unread_.counted_bytes(), 0);
  }
  // gRPC makes room for a message that is awaited before it comes.
  Give(3, 1000);
  EXPECT_EQ(ArriveAmongMuch(http2::Message(3, 995, 995)), 0);
  EXPECT_GT(ArriveAmongMuch(http2::Message(3, 59, 59)), 0);
}

TEST_F(UnreadBytesTest, PartsOfOneBufferKeepItOnce) {
  std::string frames;
  for (int i = 0; i < 100; ++i) frames += http2::Message(3, 59, 59);
  EXPECT_LE(ArriveAmongMuch(frames + frames), kMuch);
  Give(3, 100 * 64);
  EXPECT_GE(unread_.counted_bytes(), kMuch / 4);
  Give(3, 100 * 64);
  EXPECT_EQ(unread_.counted_bytes(), 0);
}

TEST_F(UnreadBytesTest, WhatAClientEndedIsThereUntilTheDaemonEndsIt) {
  const auto last = [](uint32_t stream) {
    return http2::Frame(Frame::kData, stream, std::string(100, 'm'),
                        Frame::kEndStream);
  };
  EXPECT_GT(ArriveAmongMuch(last(3)), 0);
  unread_.End(3);
  EXPECT_EQ(unread_.counted_bytes(), 0);
  EXPECT_GT(ArriveAmongMuch(last(5)), 0);
  EXPECT_EQ(ArriveAmongMuch(http2::Reset(5)), 0);
  Give(5, 100);  // Of none that there is.
  EXPECT_EQ(unread_.counted_bytes(), 0);
}

}  // namespace
}  // namespace gemmd::rpc
