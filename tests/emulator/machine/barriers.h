// The barriers of a CTA. Thread-compatible; who waits does so in the scheduler.
//
// Barriers in shared memory (mbarrier): a phase completes when all expected
// arrivals came and all announced bytes landed. Named barriers: a number of
// threads meet. PTX ISA, mbarrier, bar.sync.
#ifndef GEMMD_TESTS_EMULATOR_MACHINE_BARRIERS_H_
#define GEMMD_TESTS_EMULATOR_MACHINE_BARRIERS_H_

#include <cstdint>
#include <map>
#include <string>

#include "tests/emulator/machine/scheduler.h"
#include "tests/emulator/machine/shared_memory.h"

namespace gemmd::emulator {

class Barriers {
 public:
  Barriers(Scheduler& scheduler, SharedMemory& memory, Reports& reports)
      : scheduler_(scheduler), memory_(memory), reports_(reports) {}

  void Init(Actor& actor, uint32_t address, uint32_t arrivals);
  // Makes all barriers known to the asynchronous proxy.
  void FenceInit();
  void Arrive(Actor& actor, uint32_t address);
  // By a thread of the CTA of another rank, who knows that much of its own.
  void ArriveFromPeer(int rank, const Actor& actor, uint32_t address);
  void Expect(const Actor& actor, uint32_t address, uint32_t bytes);
  void Wait(Actor& actor, uint32_t address, uint32_t parity);

  // For the copy engine: number and current phase of the barrier. False, with a
  // report, where there is none.
  struct Target {
    int number;
    uint32_t phase;
  };
  bool Find(const Actor& actor, uint32_t address, Target* target);
  void Land(uint32_t address, uint32_t bytes);

  // bar.sync.
  void Meet(Actor& actor, int name, int threads);

 private:
  struct Barrier {
    int number = 0;
    int maker = 0;  // The thread, and its deed, that made it.
    uint32_t made = 0;
    bool fenced = false;
    uint32_t expected = 0;
    uint32_t pending = 0;  // Arrivals of this phase that are missing.
    int64_t bytes = 0;     // Announced and not landed.
    uint32_t phase = 0;    // Completed so far.
    // Of all who arrived, and of those of the last completed phase.
    Knowledge gathered, released;
    std::map<int, Knowledge> gathered_of_peers, released_of_peers;
    Scheduler::Waiters waiters;
  };
  struct Named {
    int expected = 0;
    int arrived = 0;
    uint32_t rounds = 0;
    Knowledge gathered;
    Knowledge released;
    Scheduler::Waiters waiters;
  };

  Barrier* At(const Actor& actor, uint32_t address, const char* what);
  // Null, with a report, when no arrival is missing.
  Barrier* Expecting(const Actor& actor, uint32_t address);
  void MayComplete(Barrier& barrier);
  static std::string Describe(const Barrier& barrier, uint32_t address);

  Scheduler& scheduler_;
  SharedMemory& memory_;
  Reports& reports_;
  std::map<uint32_t, Barrier> barriers_;
  std::map<int, Named> named_;
};

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MACHINE_BARRIERS_H_
