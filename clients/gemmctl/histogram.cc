#include "clients/gemmctl/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace gemmd::gemmctl {

int Histogram::IndexOf(int64_t ns) {
  const int width = std::bit_width(static_cast<uint64_t>(ns));
  const int shift = std::max(0, width - kBitsOfBuckets - 1);
  // The leading 7 bits of a long number are 64 to 127.
  return (shift << kBitsOfBuckets) + static_cast<int>(ns >> shift);
}

int64_t Histogram::GreatestOf(int index) {
  constexpr int kBuckets = 1 << kBitsOfBuckets;
  const int shift = std::max(0, index / kBuckets - 1);
  const int64_t leading = index - (shift << kBitsOfBuckets);
  return ((leading + 1) << shift) - 1;
}

void Histogram::Add(absl::Duration time) {
  time = std::max(time, absl::ZeroDuration());
  ++counts_[IndexOf(absl::ToInt64Nanoseconds(time))];
  ++count_;
  sum_ += time;
  max_ = std::max(max_, time);
}

void Histogram::Merge(const Histogram& other) {
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

absl::Duration Histogram::mean() const {
  return count_ == 0 ? absl::ZeroDuration() : sum_ / count_;
}

absl::Duration Histogram::Quantile(double q) const {
  const auto rank =
      static_cast<int64_t>(std::ceil(q * static_cast<double>(count_)));
  int64_t seen = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen > 0 && seen >= rank) {
      return std::min(max_, absl::Nanoseconds(GreatestOf(static_cast<int>(i))));
    }
  }
  return absl::ZeroDuration();
}

}  // namespace gemmd::gemmctl
