// The registers of a CTA and their move between warpgroups. PTX ISA,
// setmaxnreg. Thread-compatible; who takes more than are free waits in the
// scheduler.
#ifndef GEMMD_TESTS_EMULATOR_MACHINE_REGISTER_FILE_H_
#define GEMMD_TESTS_EMULATOR_MACHINE_REGISTER_FILE_H_

#include <algorithm>
#include <string>
#include <vector>

#include "tests/emulator/machine/reports.h"
#include "tests/emulator/machine/scheduler.h"

namespace gemmd::emulator {

class RegisterFile {
 public:
  static constexpr int kRegisters = 65536;

  // Every thread begins with the most that a CTA of so many threads can have:
  // what the compiler takes with __launch_bounds__(threads, 1).
  RegisterFile(int threads, Scheduler& scheduler, Reports& reports)
      : scheduler_(scheduler),
        reports_(reports),
        of_thread_(static_cast<size_t>(threads),
                   std::min(255, kRegisters / threads) / 8 * 8) {}

  int Of(int thread) const { return of_thread_[static_cast<size_t>(thread)]; }

  void Give(int thread, int registers) {
    Check(thread, registers);
    int& own = of_thread_[static_cast<size_t>(thread)];
    if (registers > own) {
      reports_.Add("register budget", "thread " + std::to_string(thread) +
                                          " gives registers but keeps more "
                                          "than it has: " +
                                          std::to_string(registers));
    }
    free_ += own - registers;
    own = registers;
    scheduler_.Wake(waiters_);
  }

  void Take(int thread, int registers) {
    Check(thread, registers);
    int& own = of_thread_[static_cast<size_t>(thread)];
    while (free_ < registers - own) {
      scheduler_.Wait(waiters_, [&] {
        return "for registers: " + std::to_string(registers) +
               " a thread are asked for, register budget of the CTA "
               "exceeded by " +
               std::to_string(registers - own - free_);
      });
    }
    free_ -= registers - own;
    own = registers;
  }

 private:
  void Check(int thread, int registers) {
    if (registers % 8 == 0 && registers >= 24 && registers <= 256) return;
    reports_.Add("register budget",
                 "thread " + std::to_string(thread) + " asks for " +
                     std::to_string(registers) +
                     " registers; allowed: multiples of 8 from 24 to 256");
  }

  Scheduler& scheduler_;
  Reports& reports_;
  std::vector<int> of_thread_;
  int free_ = 0;
  Scheduler::Waiters waiters_;
};

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MACHINE_REGISTER_FILE_H_
