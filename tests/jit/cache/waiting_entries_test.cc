// Kernels that wait to be written to a directory are as good as written, and
// what takes an entry away takes them, too.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <filesystem>
#include <memory>
#include <string>

#include "jit/base/file.h"
#include "jit/cache/disk_store.h"
#include "tests/jit/cache/kernel_cache_fixture.h"

namespace gemmd::jit {
namespace {

class WaitingEntriesTest : public KernelCacheTest {
 protected:
  WaitingEntriesTest()
      : lock_(open(In("lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    EXPECT_EQ(flock(lock_.get(), LOCK_EX), 0);
    // Without memory, which would have them too.
    cache_ = Create({.directory = directory_.path(), .memory_bytes = 0});
    // One is being written, for as long as the lock is held; one waits.
    first_ = cache_->Get({.name = "k", .source = "1"}, Soon())->kernel->key;
    key_ = cache_->Get(instance_, Soon())->kernel->key;
  }

  // Lets all be written that still is to be.
  void Write() {
    lock_.Reset();
    cache_->Flush();
  }
  bool IsWritten(const std::string& key) const {
    return std::filesystem::exists(EntryFile(key));
  }

  UniqueFd lock_;
  std::unique_ptr<KernelCache> cache_;
  std::string first_, key_;
};

TEST_F(WaitingEntriesTest, AreFoundAndListed) {
  EXPECT_EQ((*cache_->Find(key_))->name, instance_.name);
  EXPECT_EQ(cache_->List("", 10).size(), 2u);
  EXPECT_FALSE(IsWritten(key_));
  Write();
  EXPECT_TRUE(IsWritten(first_));
  EXPECT_TRUE(IsWritten(key_));
  EXPECT_EQ(cache_->List("", 10).size(), 2u);
}

TEST_F(WaitingEntriesTest, AreEvicted) {
  const absl::Status status = cache_->Evict(key_);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(absl::IsNotFound(cache_->Find(key_).status()));
  EXPECT_EQ(cache_->List("", 10).size(), 1u);
  Write();
  EXPECT_TRUE(IsWritten(first_));
  EXPECT_FALSE(IsWritten(key_));
}

TEST_F(WaitingEntriesTest, AreNotWrittenWhenADeviceRefusedThem) {
  cache_->Quarantine(key_);
  EXPECT_TRUE(absl::IsNotFound(cache_->Find(key_).status()));
  Write();
  EXPECT_TRUE(IsWritten(first_));
  EXPECT_FALSE(IsWritten(key_));
}

}  // namespace
}  // namespace gemmd::jit
