#include "jit/cache/memory_store.h"

#include <gtest/gtest.h>

#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

KernelPointer Kernel(const std::string& source) {
  return std::make_shared<const CompiledKernel>(FakeKernel(source));
}

// Bytes that `count` kernels of one-letter sources take.
int64_t BytesOf(int count) {
  const CompiledKernel one = FakeKernel("a");
  return count * static_cast<int64_t>(sizeof(one) + one.source.size() +
                                      one.log.size() + one.cubin.size());
}

TEST(MemoryStoreTest, TheLeastRecentlyUsedMakesRoom) {
  MemoryStore store(BytesOf(2));
  const KernelPointer a = Kernel("a"), b = Kernel("b"), c = Kernel("c");
  store.Insert(a);
  store.Insert(b);
  EXPECT_EQ(store.Find(a->key), a);
  store.Insert(c);
  EXPECT_EQ(store.Find(a->key), a);
  EXPECT_EQ(store.Find(b->key), nullptr);
  EXPECT_EQ(store.Find(c->key), c);
  EXPECT_EQ(store.List().size(), 2u);
}

TEST(MemoryStoreTest, HoldsItsLimit) {
  MemoryStore store(BytesOf(3) + 1);
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    store.Insert(Kernel(std::string(1, letter)));
    EXPECT_LE(store.List().size(), 3u);
  }
  EXPECT_EQ(store.List().size(), 3u);
  // What does not fit is not kept, and nothing leaves for it.
  store.Insert(Kernel(std::string(100000, 'x')));
  EXPECT_EQ(store.List().size(), 3u);
  EXPECT_NE(store.Find(Kernel("z")->key), nullptr);
}

TEST(MemoryStoreTest, OneMayTakeAllOfTheLimit) {
  MemoryStore store(BytesOf(1));
  store.Insert(Kernel("a"));
  EXPECT_EQ(store.List().size(), 1u);
}

TEST(MemoryStoreTest, WhatIsRemovedMakesRoom) {
  MemoryStore store(BytesOf(2));
  const KernelPointer a = Kernel("a"), b = Kernel("b"), c = Kernel("c");
  store.Insert(a);
  store.Insert(b);
  EXPECT_TRUE(store.Remove(a->key));
  EXPECT_FALSE(store.Remove(a->key));
  store.Insert(c);
  EXPECT_NE(store.Find(b->key), nullptr);
  EXPECT_NE(store.Find(c->key), nullptr);
}

TEST(MemoryStoreTest, OneKernelTwiceCountsOnce) {
  MemoryStore store(BytesOf(2));
  store.Insert(Kernel("a"));
  store.Insert(Kernel("a"));
  store.Insert(Kernel("b"));
  EXPECT_NE(store.Find(Kernel("a")->key), nullptr);
}

}  // namespace
}  // namespace gemmd::jit
