// Which of the threads of a CTA runs next, and when what was begun
// asynchronously happens: at the latest when nothing else can run, else when
// the seed says so. The same seed gives the same order. Thread-compatible.
#ifndef GEMMD_TESTS_EMULATOR_MACHINE_SCHEDULER_H_
#define GEMMD_TESTS_EMULATOR_MACHINE_SCHEDULER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/emulator/machine/fiber.h"

namespace gemmd::emulator {

class Scheduler {
 public:
  // Threads that wait for the same thing.
  using Waiters = std::vector<int>;

  explicit Scheduler(uint64_t seed);

  // body(0), ..., body(threads - 1) begin.
  void Begin(int threads, std::function<void(int)> body);
  // Runs them until all have ended and nothing is pending, or until nothing can
  // go on. False where nothing could.
  bool GoOn();
  bool ended() const;
  // Returns who waits for what, and ends them.
  std::vector<std::string> End();

  // The running thread.
  int current() const { return current_; }
  // Lets others run first, if the seed says so.
  void MayYield();
  // Pauses the running thread until Wake. `reason` says for what it waits.
  void Wait(Waiters& waiters, const std::function<std::string()>& reason);
  void Wake(Waiters& waiters);
  // `operation` happens at some time from now on.
  void Later(std::function<void()> operation);

 private:
  uint32_t Random(uint32_t below);
  int TakeReady();
  void Happen();
  std::vector<std::string> Stuck() const;

  std::minstd_rand random_;
  // How much the order is stirred: one in so many.
  uint32_t yields_one_in_;
  uint32_t happens_one_in_;
  uint32_t stays_one_in_;
  int favourite_ = 0;  // Warpgroup.
  int current_ = -1;
  std::function<void(int)> body_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<int> ready_;
  std::vector<std::function<void()>> pending_;
  // Of threads that wait.
  std::vector<const std::function<std::string()>*> reasons_;
};

// "threads 0, 32-63".
std::string ThreadRanges(const std::vector<int>& threads);

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MACHINE_SCHEDULER_H_
