// The tensor memory accelerator of a CTA: boxes between matrices in global
// memory and shared memory, done some time after they are issued, in any order.
// PTX ISA, cp.async.bulk.tensor. Thread-compatible.
#ifndef GEMMD_TESTS_EMULATOR_MACHINE_COPY_ENGINE_H_
#define GEMMD_TESTS_EMULATOR_MACHINE_COPY_ENGINE_H_

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "tests/emulator/machine/barriers.h"
#include "tests/emulator/machine/scheduler.h"
#include "tests/emulator/machine/shared_memory.h"
#include "tests/emulator/machine/tensor_map.h"

namespace gemmd::emulator {

// A box at (x, y) of matrix z, in elements.
struct BoxPlace {
  int x;
  int y;
  int z;
};

class CopyEngine {
 public:
  // Maps within `in_memory` are no parameters of the kernel.
  CopyEngine(Scheduler& scheduler, SharedMemory& memory, Barriers& barriers,
             std::span<const char> in_memory, Reports& reports)
      : scheduler_(scheduler),
        memory_(memory),
        barriers_(barriers),
        in_memory_(in_memory),
        reports_(reports) {}

  // Of a map in memory: `actor` may use it from here on.
  void Acquire(const Actor& actor, const void* map);

  void Load(const Actor& actor, uint32_t to, const void* map,
            const BoxPlace& place, uint32_t barrier);
  void Store(const Actor& actor, const void* map, const BoxPlace& place,
             uint32_t from);
  void CommitStores(const Actor& actor);
  // Until the stores of all groups of the thread have read shared memory.
  void WaitStoresRead(Actor& actor);
  // When `actor` ends: no store of its may still read shared memory.
  void CheckEnd(const Actor& actor);

 private:
  // Stores of one thread: a reader of shared memory.
  struct Stores {
    int reader = 0;
    uint32_t groups = 0;  // Committed.
    int unread = 0;       // Issued, and shared memory not read.
    int uncommitted = 0;
    Scheduler::Waiters waiters;
  };

  // Calls visit(chunk address, its line of the matrix or null, x, y) for each
  // 16 bytes of the box in shared memory. The line is null outside of the
  // matrix.
  template <typename Visit>
  static void ForChunks(const TensorMap& map, const BoxPlace& place,
                        uint32_t address, const Visit& visit);
  // False, with a report, where hardware would fail.
  bool Check(const Actor& actor, const char* what, const void* bytes,
             const BoxPlace& place, uint32_t address, TensorMap* map);
  Stores& StoresOf(const Actor& actor);

  Scheduler& scheduler_;
  SharedMemory& memory_;
  Barriers& barriers_;
  const std::span<const char> in_memory_;
  std::set<std::pair<int, const void*>> acquired_;  // By thread.
  Reports& reports_;
  std::map<int, Stores> stores_;  // By thread.
};

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MACHINE_COPY_ENGINE_H_
