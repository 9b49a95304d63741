#include "tests/emulator/machine/global_memory.h"

#include <signal.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "tests/emulator/machine/cta.h"

namespace gemmd::emulator {
namespace {

// Wide enough for what a kernel would touch by mistake.
constexpr size_t kGuard = size_t{1} << 20;
constexpr size_t kPage = 4096;

struct Region {
  size_t bytes;
  char* data;
  size_t data_bytes;
};

std::map<char*, Region>& Regions() {
  static std::map<char*, Region>& regions = *new std::map<char*, Region>;
  return regions;
}

// Faults come from the code of a kernel or of the copy engine, never from
// within the allocator: reporting may allocate.
void OnFault(int signal, siginfo_t* info, void*) {
  char* const at = static_cast<char*>(info->si_addr);
  auto next = Regions().upper_bound(at);
  if (next == Regions().begin() ||
      at >= std::prev(next)->first + std::prev(next)->second.bytes ||
      !Cta::Running()) {
    ::signal(signal, SIG_DFL);  // Not ours: happens again, and ends us.
    return;
  }
  const auto& [start, region] = *std::prev(next);
  const bool inside = at >= region.data && at < region.data + region.data_bytes;
  Cta::Current().reports.Add(inside ? "global memory before the dependency wait"
                                    : "outside of global memory",
                             "an access " + std::to_string(at - region.data) +
                                 " bytes into " +
                                 std::to_string(region.data_bytes));
  mprotect(start, region.bytes, PROT_READ | PROT_WRITE);
}

void CatchFaults() {
  static const bool caught = [] {
    struct sigaction action = {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    return sigaction(SIGSEGV, &action, nullptr) == 0;
  }();
  if (!caught) abort();
}

}  // namespace

GlobalBlock::GlobalBlock(size_t bytes) : bytes_((bytes + 15) / 16 * 16) {
  CatchFaults();
  const size_t pages = (bytes_ + kPage - 1) / kPage * kPage;
  mapped_ = pages + 2 * kGuard;
  void* const start = mmap(nullptr, mapped_, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) abort();
  start_ = static_cast<char*>(start);
  data_ = start_ + kGuard + pages - bytes_;
  Regions()[start_] = {mapped_, data_, bytes_};
  Unlock();
}

GlobalBlock::~GlobalBlock() {
  Regions().erase(start_);
  munmap(start_, mapped_);
}

void GlobalBlock::Lock() {
  mprotect(start_ + kGuard, mapped_ - 2 * kGuard, PROT_NONE);
}

void GlobalBlock::Unlock() {
  mprotect(start_ + kGuard, mapped_ - 2 * kGuard, PROT_READ | PROT_WRITE);
}

}  // namespace gemmd::emulator
