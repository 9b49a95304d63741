// Single flight between the processes of a host: whoever holds the lock of a
// key compiles it, the others wait and find it on disk.
//
// The lock is a byte range of one file, at an offset made from the key. The
// kernel releases it when the process ends, however it ends. Not used on
// network file systems, whose locks may hang or lie.
#ifndef GEMMD_JIT_CACHE_KEY_LOCK_H_
#define GEMMD_JIT_CACHE_KEY_LOCK_H_

#include <atomic>
#include <string>

#include "absl/time/time.h"
#include "jit/base/file.h"

namespace gemmd::jit {

// Whose ranges are locked. Empty.
inline constexpr char kKeyLockFile[] = "compiling";

// Held by one thread, and between threads of one process too: each has its own
// open file.
class KeyLock {
 public:
  // Waits for the lock of `key` in `directory` until `deadline`, or until
  // `give_up`, which may be null, is true. When it cannot be had, the lock is
  // not held(): compiling twice is better than not at all.
  KeyLock(const std::string& directory, const std::string& key,
          absl::Time deadline, const std::atomic<bool>* give_up = nullptr);

  bool held() const { return file_.ok(); }
  // Whether another process had it, which may since have made the entry.
  bool waited() const { return waited_; }

 private:
  UniqueFd file_;  // Closing it releases the lock.
  bool waited_ = false;
};

// Whether `directory` lies on a file system whose locks can be trusted.
bool IsLocalFileSystem(const std::string& directory);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_KEY_LOCK_H_
