// What the 32 lanes of a warp do together: an instruction with .sync begins
// when all lanes are there. Thread-compatible.
#ifndef GEMMD_TESTS_EMULATOR_MACHINE_WARP_H_
#define GEMMD_TESTS_EMULATOR_MACHINE_WARP_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "tests/emulator/machine/reports.h"
#include "tests/emulator/machine/scheduler.h"

namespace gemmd::emulator {

class Warp {
 public:
  static constexpr int kLanes = 32;
  // What each lane brought.
  using Lanes = std::array<void*, kLanes>;

  Warp(Scheduler& scheduler, Reports& reports)
      : scheduler_(scheduler), reports_(reports) {}

  // Waits for all lanes; the last one does `perform`. `mine` is the lane's.
  void Together(const char* instruction, int lane, void* mine,
                const std::function<void(const Lanes&)>& perform) {
    if (arrived_ == 0) {
      instruction_ = instruction;
      diverged_ = false;
    }
    if (std::string(instruction_) != instruction) {
      diverged_ = true;
      reports_.Add("warp diverged", "thread " +
                                        std::to_string(scheduler_.current()) +
                                        " executes " + instruction +
                                        ", other lanes " + instruction_);
    }
    lanes_[static_cast<size_t>(lane)] = mine;
    if (++arrived_ == kLanes) {
      arrived_ = 0;
      ++round_;
      // What lanes brought to different instructions does not fit together.
      if (!diverged_) perform(lanes_);
      scheduler_.Wake(waiters_);
      return;
    }
    const uint32_t round = round_;
    while (round_ == round) {
      scheduler_.Wait(waiters_, [&] {
        return std::string("in ") + instruction + " for " +
               std::to_string(kLanes - arrived_) + " lanes of its warp";
      });
    }
  }

 private:
  Scheduler& scheduler_;
  Reports& reports_;
  Lanes lanes_ = {};
  const char* instruction_ = "";
  bool diverged_ = false;
  int arrived_ = 0;
  uint32_t round_ = 0;
  Scheduler::Waiters waiters_;
};

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MACHINE_WARP_H_
