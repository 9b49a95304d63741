#include "jit/base/frame.h"

#include <gtest/gtest.h>

#include <string>

#include "jit/base/sha256.h"

namespace gemmd::jit {
namespace {

constexpr FrameKind kKind = {.magic = "TESTTEST", .format = 3};
constexpr size_t kReserved = 12, kLength = 16;  // Where they lie.

// `frame` with another byte at `at`, as a program would write it.
std::string With(std::string frame, size_t at, char byte) {
  frame.resize(frame.size() - kSha256Bytes);
  frame[at] = byte;
  return frame + Sha256Of(frame);
}

absl::StatusCode CodeOf(const std::string& bytes) {
  return Unframe(kKind, bytes).status().code();
}

TEST(FrameTest, HoldsItsBody) {
  for (const std::string& body : {std::string(), std::string("body")}) {
    EXPECT_EQ(Unframe(kKind, Frame(kKind, body)).value_or("none"), body);
  }
}

// Whose checksum is right: nothing else keeps files of one kind from passing
// for those of another.
TEST(FrameTest, OfAnotherKindIsRefused) {
  EXPECT_EQ(CodeOf(Frame({.magic = "BESTTEST", .format = 3}, "body")),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf(Frame({.magic = "TESTTEST", .format = 4}, "body")),
            absl::StatusCode::kUnimplemented);
  const std::string frame = Frame(kKind, "body");
  EXPECT_EQ(CodeOf(With(frame, kReserved, 1)),
            absl::StatusCode::kUnimplemented);
  for (const char length : {3, 5}) {
    EXPECT_EQ(CodeOf(With(frame, kLength, length)),
              absl::StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace gemmd::jit
