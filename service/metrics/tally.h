// A number of events for each value of an enumeration that ends with kCount.
// Whoever counts never waits. Thread-safe.
#ifndef GEMMD_SERVICE_METRICS_TALLY_H_
#define GEMMD_SERVICE_METRICS_TALLY_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gemmd::metrics {

template <typename Enum>
class Tally {
 public:
  static constexpr size_t kSize = static_cast<size_t>(Enum::kCount);

  void Count(Enum what) {
    counts_[static_cast<size_t>(what)].fetch_add(1, std::memory_order_relaxed);
  }
  int64_t Of(Enum what) const {
    return counts_[static_cast<size_t>(what)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<int64_t>, kSize> counts_ = {};
};

}  // namespace gemmd::metrics

#endif  // GEMMD_SERVICE_METRICS_TALLY_H_
