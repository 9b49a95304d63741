// How often which times were seen: within 1.6% of each, in memory that does not
// grow with their number. Thread-compatible.
#ifndef GEMMD_CLIENTS_GEMMCTL_HISTOGRAM_H_
#define GEMMD_CLIENTS_GEMMCTL_HISTOGRAM_H_

#include <array>
#include <cstdint>

#include "absl/time/time.h"

namespace gemmd::gemmctl {

class Histogram {
 public:
  // Less than nothing counts as nothing.
  void Add(absl::Duration time);
  void Merge(const Histogram& other);

  int64_t count() const { return count_; }
  absl::Duration mean() const;
  absl::Duration max() const { return max_; }
  // The time that a share `q` of all does not exceed; zero when there are none.
  absl::Duration Quantile(double q) const;

 private:
  // Nanoseconds below 64 have a bucket each, and then 64 every power of two.
  static constexpr int kBitsOfBuckets = 6;
  static int IndexOf(int64_t ns);
  static int64_t GreatestOf(int index);

  std::array<int64_t, (64 - kBitsOfBuckets) << kBitsOfBuckets> counts_ = {};
  int64_t count_ = 0;
  absl::Duration sum_;
  absl::Duration max_;
};

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_HISTOGRAM_H_
