// The four warps that issue wgmma together, and their tensor cores. What is
// issued reads shared memory at some time before it is waited for, in order;
// sums reach registers when the wait returns, until then these hold poison.
// PTX ISA, wgmma.fence, wgmma.mma_async, wgmma.commit_group, wgmma.wait_group.
// Thread-compatible.
#ifndef GEMMD_TESTS_EMULATOR_MACHINE_WARPGROUP_H_
#define GEMMD_TESTS_EMULATOR_MACHINE_WARPGROUP_H_

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "tests/emulator/machine/instruction.h"
#include "tests/emulator/machine/scheduler.h"
#include "tests/emulator/machine/shared_memory.h"

namespace gemmd::emulator {

// What registers hold while wgmma may change them: a NaN of f32, of f16, or
// just an odd number.
constexpr uint32_t PoisonOf(Number sum) {
  return sum == Number::kF32   ? 0x7fc5'dead
         : sum == Number::kF16 ? 0x7e5d'7e5d
                               : 0xdead'5eed;
}

class Warpgroup {
 public:
  static constexpr int kLanes = 128;

  Warpgroup(int number, Scheduler& scheduler, SharedMemory& memory,
            Reports& reports)
      : number_(number),
        scheduler_(scheduler),
        memory_(memory),
        reports_(reports) {}

  void Fence(const Actor& actor) { LaneOf(actor).fenced = true; }
  // What all threads of a warpgroup say alike.
  struct Operands {
    uint64_t x, y;
    bool accumulates;

    bool operator==(const Operands&) const = default;
  };

  // `given` where X is sparse or in registers.
  void Issue(const Actor& actor, const Wgmma& wgmma, uint32_t* registers,
             const Operands& operands, const Given& given);
  void Commit(const Actor& actor);
  void Wait(Actor& actor, int pending);
  // When `actor` ends: that all that it issued was waited for.
  void CheckEnd(const Actor& actor);

 private:
  // Registers of a thread that wgmma may change at any time.
  struct Bound {
    uint32_t* registers;
    size_t accumulator;
    size_t last_instruction;
  };
  struct Lane {
    bool fenced = false;
    size_t issued = 0;
    size_t ended = 0;  // Of those issued, known by a wait.
    std::vector<size_t> issued_at_commit;  // By group.
    std::vector<Bound> bound;
    size_t accumulators = 0;  // Bound so far.
  };
  // The sums of a warpgroup, by lane and register.
  struct Accumulator {
    size_t number;
    std::array<std::vector<uint32_t>, kLanes> values;
  };
  struct Instruction {
    Wgmma wgmma;
    Operands operands;
    int selector;
    size_t accumulator;
    int arrived;
    std::array<Given, kLanes> given;
  };

  Lane& LaneOf(const Actor& actor) {
    return lanes_[static_cast<size_t>(actor.thread % kLanes)];
  }
  Bound& Bind(Lane& lane, size_t index, const Wgmma& wgmma,
              uint32_t* registers);
  Accumulator& AccumulatorAt(size_t number);
  void CheckOperands(const Actor& actor, const Instruction& instruction);
  std::vector<unsigned char> XBytes(const Instruction& instruction) const;
  std::vector<unsigned char> ExpandedX(const Instruction& instruction,
                                       const std::vector<unsigned char>& x);
  void ExecuteNext();
  void Deliver(const Actor& actor, Lane& lane, size_t completed);

  const int number_;
  Scheduler& scheduler_;
  SharedMemory& memory_;
  Reports& reports_;
  std::array<Lane, kLanes> lanes_;
  std::deque<Instruction> instructions_;  // Those not executed.
  size_t executed_ = 0;
  std::deque<Accumulator> accumulators_;
  Scheduler::Waiters waiters_;
};

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MACHINE_WARPGROUP_H_
