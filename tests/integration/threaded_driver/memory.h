// Device memory, which is memory of the host: what lives, and that nothing is
// left at the end. Thread-safe.
#ifndef GEMMD_TESTS_INTEGRATION_THREADED_DRIVER_MEMORY_H_
#define GEMMD_TESTS_INTEGRATION_THREADED_DRIVER_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"

namespace gemmd::threaded_driver {

class Memory {
 public:
  static constexpr size_t kBytes = size_t{1} << 30;  // Of all devices together.

  static Memory& Get();

  // 0 when there is no room.
  uint64_t Allocate(size_t bytes);
  void Free(uint64_t start);
  size_t free_bytes();

  // The starts of what lives, of the words that point there.
  std::vector<uint64_t> PointedTo(absl::Span<const uint64_t> words);
  // Whether all of them live.
  bool Live(absl::Span<const uint64_t> starts);

 private:
  Memory() = default;

  std::mutex mutex_;
  // Bytes, by where they start.
  std::map<uint64_t, size_t> blocks_ ABSL_GUARDED_BY(mutex_);
  size_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gemmd::threaded_driver

#endif  // GEMMD_TESTS_INTEGRATION_THREADED_DRIVER_MEMORY_H_
