// A function on a stack of its own that may pause: one thread of an emulated
// CTA. Used by one thread of the host at a time; a debugger and
// AddressSanitizer see its stack as they see any other.
#ifndef GEMMD_TESTS_EMULATOR_MACHINE_FIBER_H_
#define GEMMD_TESTS_EMULATOR_MACHINE_FIBER_H_

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <functional>

namespace gemmd::emulator {

class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs it until it pauses or ends.
  void Resume();
  // Called from within: gives control back to who resumed it. Ends the body
  // from here when the fiber is being destroyed.
  void Pause();
  bool ended() const { return ended_; }

 private:
  struct Cancelled {};

  void Enter();

  std::function<void()> body_;
  boost::context::fiber own_;
  boost::context::fiber caller_;
  bool ended_ = false;
  bool cancelled_ = false;
  // For AddressSanitizer: both stacks.
  void* stack_ = nullptr;
  const void* caller_stack_ = nullptr;
  size_t caller_bytes_ = 0;
  void* own_shadow_ = nullptr;
};

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MACHINE_FIBER_H_
