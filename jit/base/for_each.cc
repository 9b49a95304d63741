#include "jit/base/for_each.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace gemmd::jit {

void ForEach(int64_t threads, int64_t count,
             const std::function<void(int64_t)>& part) {
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    for (int64_t i = next++; i < count; i = next++) part(i);
  };
  std::vector<std::jthread> helpers;
  try {
    for (int64_t i = 1; i < std::min(threads, count); ++i) {
      helpers.emplace_back(work);
    }
  } catch (const std::system_error&) {
    // The machine gives no more threads: those that are there do it all.
  }
  work();
}

}  // namespace gemmd::jit
