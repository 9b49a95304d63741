#include "jit/cache/cache_key.h"

#include <gtest/gtest.h>

#include <utility>

#include "jit/base/sha256.h"

namespace gemmd::jit {
namespace {

// Computed with Python's hashlib. Keys are shared between machines and
// versions: a change of this value means that every cache in the world is cold,
// and needs a new kCacheFormat.
TEST(CacheKeyTest, IsStable) {
  EXPECT_EQ(CacheKey("source", {"-a", "-b"}, "compiler"),
            "bbeba5af39f52b309a64c70d011c794d96b8d979be24cc0d25edc76fb855801d");
}

TEST(CacheKeyTest, DependsOnEveryPart) {
  const std::string key = CacheKey("source", {"-a", "-b"}, "compiler");
  EXPECT_TRUE(IsSha256Hex(key));
  EXPECT_EQ(CacheKey("source", {"-a", "-b"}, "compiler"), key);
  EXPECT_NE(CacheKey("source ", {"-a", "-b"}, "compiler"), key);
  EXPECT_NE(CacheKey("source", {"-b", "-a"}, "compiler"), key);
  EXPECT_NE(CacheKey("source", {"-a"}, "compiler"), key);
  EXPECT_NE(CacheKey("source", {"-a", "-b"}, "compiler 2"), key);
}

TEST(CacheKeyTest, KeepsNeighboursApart) {
  EXPECT_NE(CacheKey("s", {"ab", "c"}, "x"), CacheKey("s", {"a", "bc"}, "x"));
  EXPECT_NE(CacheKey("s", {"a"}, "bx"), CacheKey("s", {"a", "b"}, "x"));
}

TEST(SourceTest, DigestFollowsTheText) {
  Source source;
  EXPECT_EQ(source.digest(), Sha256Of(""));
  source = "one";
  EXPECT_EQ(source.text(), "one");
  EXPECT_EQ(source.digest(), Sha256Of("one"));
  const Source moved = std::move(source);
  EXPECT_EQ(moved.digest(), Sha256Of("one"));
  // A copy that is changed takes its own digest.
  Source other = moved;
  other = moved.text() + " more";
  EXPECT_EQ(other.digest(), Sha256Of("one more"));
  EXPECT_EQ(moved.digest(), Sha256Of("one"));
}

}  // namespace
}  // namespace gemmd::jit
