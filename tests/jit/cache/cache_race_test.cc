// Several processes, one cache directory.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/cache/disk_store.h"
#include "jit/cache/key_lock.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

TEST(CacheRaceTest, EightProcessesCompileOnce) {
  const TemporaryDirectory directory;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::FILE*> racers;
    for (int i = 0; i < 8; ++i) {
      racers.push_back(
          popen(absl::StrCat(GEMMD_TEST_CACHE_RACER, " ", directory.path(),
                             " source", round, " 200")
                    .c_str(),
                "r"));
    }
    int compiles = 0;
    for (std::FILE* racer : racers) {
      int own = 0;
      EXPECT_EQ(std::fscanf(racer, "%d", &own), 1);
      EXPECT_EQ(pclose(racer), 0);
      compiles += own;
    }
    EXPECT_EQ(compiles, 1);
  }
  EXPECT_EQ(DiskStore({.directory = directory.path()}).Keys().size(), 3u);
}

TEST(KeyLockTest, IsHeldByOneAtATime) {
  const TemporaryDirectory directory;
  const std::string key = FakeKernel("a").key, other = FakeKernel("b").key;
  {
    const KeyLock lock(directory.path(), key);
    EXPECT_TRUE(lock.held());
    EXPECT_FALSE(lock.taken());
    const KeyLock second(directory.path(), key);
    EXPECT_FALSE(second.held());
    EXPECT_TRUE(second.taken());
    EXPECT_TRUE(KeyLock(directory.path(), other).held());
  }
  EXPECT_TRUE(KeyLock(directory.path(), key).held());
}

TEST(KeyLockTest, ADeadHolderReleasesIt) {
  const TemporaryDirectory directory;
  const std::string key = FakeKernel("a").key;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const KeyLock lock(directory.path(), key);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    pause();
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_TRUE(KeyLock(directory.path(), key).taken());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(KeyLock(directory.path(), key).held());
}

}  // namespace
}  // namespace gemmd::jit
