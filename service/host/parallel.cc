#include "service/host/parallel.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace gemmd::host {

namespace {

constexpr int64_t kMultiplicationsOfAThread = int64_t{1} << 20;
// OpenBLAS keeps room for 128 threads that multiply at once, and ends the
// process for want of more. There are up to 17 lanes (--lanes).
constexpr int64_t kMaxThreads = 7;

}  // namespace

int MostThreads() {
  // Asking reads a file each time.
  static const auto most = static_cast<int>(std::clamp<int64_t>(
      std::thread::hardware_concurrency(), 1, kMaxThreads));
  return most;
}

int ThreadsFor(int64_t multiplications) {
  return static_cast<int>(std::clamp<int64_t>(
      multiplications / kMultiplicationsOfAThread, 1, MostThreads()));
}

void ForEach(int threads, int64_t count,
             const std::function<void(int64_t)>& part) {
  std::atomic<int64_t> next = 0;
  const auto work = [&] {
    for (int64_t i = next++; i < count; i = next++) part(i);
  };
  std::vector<std::jthread> helpers;
  try {
    for (int64_t i = 1; i < std::min<int64_t>(threads, count); ++i) {
      helpers.emplace_back(work);
    }
  } catch (const std::system_error&) {
    // The machine gives no more threads: those that are there do it all.
  }
  work();
}

}  // namespace gemmd::host
