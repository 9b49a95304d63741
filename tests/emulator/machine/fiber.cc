#include "tests/emulator/machine/fiber.h"

#include <sys/mman.h>

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define GEMMD_FIBER_LEAVE(shadow, bottom, bytes) \
  __sanitizer_start_switch_fiber(shadow, bottom, bytes)
#define GEMMD_FIBER_ARRIVE(shadow, bottom, bytes) \
  __sanitizer_finish_switch_fiber(shadow, bottom, bytes)
#else
#define GEMMD_FIBER_LEAVE(shadow, bottom, bytes)
#define GEMMD_FIBER_ARRIVE(shadow, bottom, bytes)
#endif

namespace gemmd::emulator {
namespace {

constexpr size_t kStackBytes = size_t{256} << 10;
constexpr size_t kPage = 4096;

// Stacks are used again: mapping hundreds for every CTA takes longer than what
// runs on them. The lowest page of each is a guard.
std::vector<void*>& FreeStacks() {
  static std::vector<void*>& stacks = *new std::vector<void*>;
  return stacks;
}

void* NewStack() {
  if (!FreeStacks().empty()) {
    void* stack = FreeStacks().back();
    FreeStacks().pop_back();
    return stack;
  }
  void* stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED || mprotect(stack, kPage, PROT_NONE) != 0) abort();
  return stack;
}

struct StackAllocator {
  void* stack;

  boost::context::stack_context allocate() const {
    boost::context::stack_context context;
    context.size = kStackBytes;
    context.sp = static_cast<char*>(stack) + kStackBytes;
    return context;
  }
  void deallocate(boost::context::stack_context&) const noexcept {
    FreeStacks().push_back(stack);
  }
};

}  // namespace

Fiber::Fiber(std::function<void()> body)
    : body_(std::move(body)), stack_(NewStack()) {
  own_ = boost::context::fiber(std::allocator_arg, StackAllocator{stack_},
                               [this](boost::context::fiber&& caller) {
                                 caller_ = std::move(caller);
                                 Enter();
                                 return std::move(caller_);
                               });
}

Fiber::~Fiber() {
  cancelled_ = true;
  while (!ended_) Resume();
}

void Fiber::Enter() {
  GEMMD_FIBER_ARRIVE(nullptr, &caller_stack_, &caller_bytes_);
  try {
    if (!cancelled_) body_();
  } catch (const Cancelled&) {
  }
  ended_ = true;
  GEMMD_FIBER_LEAVE(nullptr, caller_stack_, caller_bytes_);
}

void Fiber::Resume() {
  [[maybe_unused]] void* shadow = nullptr;
  GEMMD_FIBER_LEAVE(&shadow, stack_, kStackBytes);
  own_ = std::move(own_).resume();
  GEMMD_FIBER_ARRIVE(shadow, nullptr, nullptr);
}

void Fiber::Pause() {
  GEMMD_FIBER_LEAVE(&own_shadow_, caller_stack_, caller_bytes_);
  caller_ = std::move(caller_).resume();
  GEMMD_FIBER_ARRIVE(own_shadow_, &caller_stack_, &caller_bytes_);
  if (cancelled_) throw Cancelled();
}

}  // namespace gemmd::emulator
