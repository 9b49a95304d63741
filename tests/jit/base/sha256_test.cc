#include "jit/base/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace gemmd::jit {
namespace {

// Names of files are made of what this takes, which clients give.
TEST(Sha256Test, HexHas64DigitsAndNothingElse) {
  const std::string digits = "0123456789abcdef";
  const std::string key = digits + digits + digits + digits;
  EXPECT_TRUE(IsSha256Hex(key));
  EXPECT_FALSE(IsSha256Hex(""));
  EXPECT_FALSE(IsSha256Hex(key.substr(1)));
  EXPECT_FALSE(IsSha256Hex(key + "0"));
  for (const char* start : {"../", "A", "g", "\n"}) {
    std::string wrong = start + key;
    wrong.resize(key.size());
    EXPECT_FALSE(IsSha256Hex(wrong)) << start;
  }
}

}  // namespace
}  // namespace gemmd::jit
