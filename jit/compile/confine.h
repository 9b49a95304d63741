// Takes from a process what compiling does not need, so that a source that
// fools the compiler gains nothing: no file can be written, no program started,
// no connection made, no other process reached, no privilege gained; files are
// only read, and where the kernel has Landlock none of the host's but a few
// that describe the machine.
#ifndef GEMMD_JIT_COMPILE_CONFINE_H_
#define GEMMD_JIT_COMPILE_CONFINE_H_

#include <string>

#include "absl/status/status.h"

namespace gemmd::jit {

// Confines the calling process, for good, while it has one thread. What is open
// stays usable. Its threads are confined as well. An error says what the kernel
// refused; what came before it holds.
absl::Status ConfineThisProcess();

// A sentence that says what this kernel cannot take from a process; empty when
// there is nothing.
std::string MissingConfinement();

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_COMPILE_CONFINE_H_
