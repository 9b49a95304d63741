// Part of KernelTable: which shapes are used most, for the tuner and for
// people.
#include <algorithm>
#include <mutex>

#include "service/engine/kernel_table.h"

namespace gemmd::engine {
namespace {

// From here on a shape that cools needs no more finds to be hot again.
constexpr int kMostCooled = 8;

}  // namespace

std::vector<KernelTable::Hot> KernelTable::Hottest(size_t count,
                                                   int64_t least_finds) const {
  std::vector<Hot> hot;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [shape, known] : plans_) {
      if (known.tuned || known.finds >> (3 * known.cooled) < least_finds) {
        continue;
      }
      if (!shape.problem().reads_ab()) continue;  // There is one way to do it.
      hot.push_back({shape.problem(), known.finds,
                     static_cast<double>(known.finds) *
                         known.prepared->plan.predicted_us});
    }
  }
  const auto hotter = [](const Hot& a, const Hot& b) {
    return a.predicted_us > b.predicted_us;
  };
  count = std::min(count, hot.size());
  std::partial_sort(hot.begin(), hot.begin() + static_cast<ptrdiff_t>(count),
                    hot.end(), hotter);
  hot.resize(count);
  return hot;
}

std::vector<KernelTable::Used> KernelTable::MostUsed(size_t count) const {
  // Only the few that are wanted are copied under the lock.
  struct Ranked {
    int64_t execute_ns;
    const Shape* shape;
    const Prepared* prepared;
  };
  std::vector<Ranked> ranked;
  std::vector<Used> used;
  std::lock_guard lock(mutex_);
  for (const auto& [shape, known] : plans_) {
    const int64_t ns = known.prepared->use->execute_ns;
    if (ns > 0) ranked.push_back({ns, &shape, known.prepared.get()});
  }
  count = std::min(count, ranked.size());
  std::partial_sort(ranked.begin(),
                    ranked.begin() + static_cast<ptrdiff_t>(count),
                    ranked.end(), [](const Ranked& a, const Ranked& b) {
                      return a.execute_ns > b.execute_ns;
                    });
  for (size_t i = 0; i < count; ++i) {
    const Ranked& one = ranked[i];
    used.push_back({one.shape->problem(), one.prepared->kernel->name,
                    one.prepared->use->runs,
                    absl::Nanoseconds(one.execute_ns)});
  }
  return used;
}

void KernelTable::Cool(const jit::Problem& problem) {
  std::lock_guard lock(mutex_);
  const auto found = plans_.find(Shape(problem));
  if (found == plans_.end()) return;
  found->second.finds = 0;
  found->second.cooled = std::min(found->second.cooled + 1, kMostCooled);
}

}  // namespace gemmd::engine
