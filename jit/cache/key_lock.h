// Single flight between the processes of a host: whoever holds the lock of a
// key compiles it, the others come again and find it on disk.
//
// The lock is a byte range of one file, at an offset made from the key. The
// kernel releases it when the process ends, however it ends. Not used on
// network file systems, whose locks may hang or lie.
#ifndef GEMMD_JIT_CACHE_KEY_LOCK_H_
#define GEMMD_JIT_CACHE_KEY_LOCK_H_

#include <string>

#include "jit/base/file.h"

namespace gemmd::jit {

// Whose ranges are locked. Empty.
inline constexpr char kKeyLockFile[] = "compiling";

// Held by one thread, and between threads of one process too: each has its own
// open file.
class KeyLock {
 public:
  // Takes the lock of `key` in `directory`, and does not wait for it. When it
  // cannot be had, the lock is not held(): compiling twice is better than not
  // at all.
  KeyLock(const std::string& directory, const std::string& key);

  bool held() const { return file_.ok(); }
  // Whether another process has it, which is making the entry.
  bool taken() const { return taken_; }

 private:
  UniqueFd file_;  // Closing it releases the lock.
  bool taken_ = false;
};

// Whether `directory` lies on a file system whose locks can be trusted.
bool IsLocalFileSystem(const std::string& directory);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_KEY_LOCK_H_
