// Writes kernels into a directory behind the requests that made them, one
// after the other on a thread of its own, and notes there what was used. Until
// a kernel is written it is found here. Thread-safe.
#ifndef GEMMD_JIT_CACHE_WRITE_BEHIND_H_
#define GEMMD_JIT_CACHE_WRITE_BEHIND_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "jit/cache/memory_store.h"

namespace gemmd::jit {

class WriteBehind {
 public:
  struct Options {
    // Writes a kernel; may take seconds. Called on the thread of this.
    std::function<absl::Status(const CompiledKernel&)> write;
    // Called on the same thread when it starts, then every `interval`, and at
    // the end.
    std::function<void()> tidy;
    absl::Duration interval = absl::Seconds(10);
    // Told of kernels that could not be written.
    std::function<void(const absl::Status&)> failed;
    // Bytes of kernels that may wait; beyond it a kernel is not written.
    int64_t limit_bytes = int64_t{256} << 20;
  };

  explicit WriteBehind(Options options);
  // Writes what waits, until a write fails.
  ~WriteBehind();

  // Takes no longer than a look into a table. `release` is destroyed once the
  // kernel is written, or is not: a lock, for example.
  void Write(KernelPointer kernel, std::shared_ptr<const void> release);

  // The kernel of `key` that waits; null when there is none.
  KernelPointer Find(const std::string& key) const;

  // Forgets the kernel of `key` if it waits: false when it does not. While that
  // is being written, returns when it is.
  bool Remove(const std::string& key);

  std::vector<KernelPointer> List() const;

  // Waits until nothing waits.
  void Flush();

 private:
  struct Waiting {
    KernelPointer kernel;  // Null once it was removed.
    std::shared_ptr<const void> release;
  };

  void Run();
  void WriteNext();

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable change_;
  std::deque<Waiting> queue_ ABSL_GUARDED_BY(mutex_);
  // Of what is in the queue or being written.
  absl::flat_hash_map<std::string, KernelPointer> by_key_
      ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  KernelPointer writing_ ABSL_GUARDED_BY(mutex_);  // Null: none is.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool gave_up_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_WRITE_BEHIND_H_
