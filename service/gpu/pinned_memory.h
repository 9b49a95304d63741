// Page-locked host memory: that of others, and our own that is reused: pinning
// costs about 50 microseconds per MiB, so buffers go back to a pool, bounded in
// bytes.
#ifndef GEMMD_SERVICE_GPU_PINNED_MEMORY_H_
#define GEMMD_SERVICE_GPU_PINNED_MEMORY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/device/device.h"
#include "service/gpu/context.h"

namespace gemmd::gpu {

// Page-locks `memory` for all contexts. `context` outlives it.
absl::StatusOr<std::unique_ptr<device::Pin>> PinMemory(const Context* context,
                                                       absl::Span<char> memory);

class PinnedPool;

// Returns to its pool when destroyed. Contents unspecified at first: it may
// hold what an earlier user left.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  ~PinnedBuffer() { Reset(); }

  // As many bytes as were asked for.
  absl::Span<char> bytes() const { return {data_, size_}; }

  void Reset();

 private:
  friend class PinnedPool;
  PinnedBuffer(std::shared_ptr<PinnedPool> pool, char* data, size_t size)
      : pool_(std::move(pool)), data_(data), size_(size) {}

  std::shared_ptr<PinnedPool> pool_;
  char* data_ = nullptr;
  size_t size_ = 0;
};

// Thread-safe. Shared, because buffers may outlive the lane that asked for
// them; `context` outlives the pool.
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  struct Limits {
    int64_t total_bytes = int64_t{16} << 30;  // In use and idle.
    int64_t idle_bytes = int64_t{1} << 30;    // Kept for reuse.
  };

  static std::shared_ptr<PinnedPool> Create(const Context* context,
                                            Limits limits);
  ~PinnedPool();

  // RESOURCE_EXHAUSTED beyond the limit or when the host has no memory.
  absl::StatusOr<PinnedBuffer> Allocate(int64_t bytes);

  device::PinnedMemory use() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Bytes that are allocated for a request of `bytes`: four sizes per power
  // of two, 4 KiB at least, so that buffers fit later requests and waste at
  // most a quarter.
  static int64_t SizeClass(int64_t bytes);

 private:
  friend class PinnedBuffer;

  PinnedPool(const Context* context, Limits limits)
      : context_(context), limits_(limits) {}

  void Return(char* data, int64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void FreeIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Context* const context_;
  const Limits limits_;

  mutable std::mutex mutex_;
  // By size class. Invariant: idle_bytes_ is the sum over `idle_`, and
  // total_bytes_ adds what is in use.
  std::map<int64_t, std::vector<char*>> idle_ ABSL_GUARDED_BY(mutex_);
  int64_t idle_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t total_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gemmd::gpu

#endif  // GEMMD_SERVICE_GPU_PINNED_MEMORY_H_
