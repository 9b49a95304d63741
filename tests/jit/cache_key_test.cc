#include "jit/cache_key.h"

#include <gtest/gtest.h>

#include "jit/sha256.h"

namespace gemmd::jit {
namespace {

// Computed with Python's hashlib. Keys are shared between machines and
// versions: a change of this value means that every cache in the world is cold,
// and needs a new kCacheFormat.
TEST(CacheKeyTest, IsStable) {
  EXPECT_EQ(CacheKey("source", {"-a", "-b"}, "compiler"),
            "6ee20ffc1308153936aa312f391a8adcd90bc005c09f59fc424de56fb5451372");
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

}  // namespace
}  // namespace gemmd::jit
