// The system as it is when it gives no more threads. Thread-compatible.
#ifndef GEMMD_TESTS_FEW_THREADS_H_
#define GEMMD_TESTS_FEW_THREADS_H_

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace gemmd::testing {

// While it lives, stacks of a few more threads have room, at most 100.
class FewThreads {
 public:
  // What sanitizers reserve has no room beside a limit.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr bool kPossible = false;
#else
  static constexpr bool kPossible = true;
#endif

  FewThreads() {
    constexpr rlim_t kRoom = rlim_t{100} << 20;
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    getrlimit(RLIMIT_AS, &usual_);
    const auto page = static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
    const rlimit little = {pages * page + kRoom, usual_.rlim_max};
    setrlimit(RLIMIT_AS, &little);
  }
  ~FewThreads() { setrlimit(RLIMIT_AS, &usual_); }
  FewThreads(const FewThreads&) = delete;

 private:
  rlimit usual_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_FEW_THREADS_H_
