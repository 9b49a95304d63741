#include "service/host/parallel.h"

#include <algorithm>
#include <thread>

namespace gemmd::host {

namespace {

constexpr int64_t kMultiplicationsOfAThread = int64_t{1} << 20;
// OpenBLAS keeps room for 128 threads that multiply at once, and ends the
// process for want of more. There are up to 17 lanes (--lanes).
constexpr int64_t kMaxThreads = 7;

}  // namespace

int MostThreads() {
  // Asking reads a file each time.
  static const auto most = static_cast<int>(
      std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, kMaxThreads));
  return most;
}

int ThreadsFor(int64_t multiplications) {
  return static_cast<int>(std::clamp<int64_t>(
      multiplications / kMultiplicationsOfAThread, 1, MostThreads()));
}

}  // namespace gemmd::host
