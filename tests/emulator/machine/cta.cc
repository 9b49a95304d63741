#include "tests/emulator/machine/cta.h"

#include <string>

namespace gemmd::emulator {
namespace {

Cta* current = nullptr;

}  // namespace

Cta& Cta::Current() { return *current; }
bool Cta::Running() { return current != nullptr; }

Cta::Cta(const Launch& launch, int index, Cluster& cluster, Reports& reports)
    : launch(launch),
      index(index),
      cluster(cluster),
      reports(reports),
      scheduler(launch.seed + 977 * static_cast<uint64_t>(index)),
      shared(static_cast<uint32_t>(launch.shared_bytes), reports),
      barriers(scheduler, shared, reports),
      copy_engine(scheduler, shared, barriers, launch.maps_in_memory, reports),
      registers(launch.threads, scheduler, reports),
      actors_(static_cast<size_t>(launch.threads)),
      waited_(static_cast<size_t>(launch.threads)) {
  for (int i = 0; i < launch.threads; ++i) {
    actors_[static_cast<size_t>(i)].thread = i;
    actors_[static_cast<size_t>(i)].Advance();  // Deeds count from one.
  }
  for (int i = 0; i < launch.threads; i += Warp::kLanes) {
    warps_.emplace_back(scheduler, reports);
  }
  for (int i = 0; i * Warpgroup::kLanes < launch.threads; ++i) {
    warpgroups_.push_back(
        std::make_unique<Warpgroup>(i, scheduler, shared, reports));
  }
}

Actor& Cta::actor() {
  return actors_[static_cast<size_t>(scheduler.current())];
}

void Cta::Begin(const std::function<void()>& kernel) {
  scheduler.Begin(launch.threads, [this, kernel](int) {
    kernel();
    copy_engine.CheckEnd(actor());
    warpgroup().CheckEnd(actor());
  });
}

bool Cta::GoOn() {
  current = this;
  const bool went = scheduler.GoOn();
  current = nullptr;
  return went;
}

void Cta::End() {
  const std::vector<std::string> stuck = scheduler.End();
  if (stuck.empty()) return;
  std::string text = "nothing can go on in CTA " + std::to_string(index);
  for (const std::string& line : stuck) text += "; " + line;
  reports.Add("deadlock", text);
}

void Cta::WaitForDependencies() {
  if (launch.dependencies) launch.dependencies();
  waited_[static_cast<size_t>(scheduler.current())] = true;
}

void Cta::TouchGlobal(const char* what) {
  if (waited_[static_cast<size_t>(scheduler.current())]) return;
  reports.Add("global memory before the dependency wait",
              "thread " + std::to_string(scheduler.current()) + ": " + what +
                  " before griddepcontrol.wait");
}

}  // namespace gemmd::emulator
