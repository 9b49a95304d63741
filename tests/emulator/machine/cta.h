// One CTA of a grid: its threads and all that they share. One runs at a time in
// a process, on one thread of the host; isa.h works on that one. CTAs of a
// cluster take turns.
#ifndef GEMMD_TESTS_EMULATOR_MACHINE_CTA_H_
#define GEMMD_TESTS_EMULATOR_MACHINE_CTA_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tests/emulator/machine/barriers.h"
#include "tests/emulator/machine/copy_engine.h"
#include "tests/emulator/machine/register_file.h"
#include "tests/emulator/machine/reports.h"
#include "tests/emulator/machine/scheduler.h"
#include "tests/emulator/machine/shared_memory.h"
#include "tests/emulator/machine/warp.h"
#include "tests/emulator/machine/warpgroup.h"

namespace gemmd::emulator {

// What a launch says, and who listens.
struct Launch {
  int ctas = 1;
  int cluster = 1;  // CTAs of a cluster; divides the above.
  int threads = 128;
  int shared_bytes = 0;
  uint64_t seed = 0;
  bool in_order = false;  // CTAs may wait for those before them.
  // Called when the first thread waits for the grids before this one: only then
  // is global memory there. May be null.
  std::function<void()> dependencies;
  // Where tensor maps have to be acquired.
  std::span<const char> maps_in_memory;
};

class Cluster;

class Cta {
 public:
  Cta(const Launch& launch, int index, Cluster& cluster, Reports& reports);

  // Runs `kernel` in every thread: until nothing can go on, as often as
  // something has come from a peer. False where nothing could.
  void Begin(const std::function<void()>& kernel);
  bool GoOn();
  void End();
  bool ended() const { return scheduler.ended(); }

  // The one that is running.
  static Cta& Current();
  static bool Running();

  // Of the running thread.
  Actor& actor();
  int lane() const { return scheduler.current() % Warp::kLanes; }
  Warp& warp() {
    return warps_[static_cast<size_t>(scheduler.current() / Warp::kLanes)];
  }
  Warpgroup& warpgroup() {
    return *warpgroups_[static_cast<size_t>(scheduler.current() /
                                            Warpgroup::kLanes)];
  }
  int rank() const { return index % launch.cluster; }
  void WaitForDependencies();
  // Reports a use of global memory before the thread has waited for it.
  void TouchGlobal(const char* what);

  const Launch& launch;
  const int index;
  Cluster& cluster;
  Reports& reports;
  Scheduler scheduler;
  SharedMemory shared;
  Barriers barriers;
  CopyEngine copy_engine;
  RegisterFile registers;

 private:
  std::vector<Actor> actors_;
  std::vector<bool> waited_;  // For dependencies.
  std::vector<Warp> warps_;
  std::vector<std::unique_ptr<Warpgroup>> warpgroups_;
};

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MACHINE_CTA_H_
