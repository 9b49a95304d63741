// What a compiler that works leaves behind, made without one. Needs no other
// library, for fake_nvrtc is one.
#ifndef GEMMD_TESTS_JIT_FAKE_CUBIN_H_
#define GEMMD_TESTS_JIT_FAKE_CUBIN_H_

#include <string>

#include "jit/source/instance.h"

namespace gemmd::jit {

// The smallest ELF file that passes for a cubin of kKernelSymbol.
std::string FakeCubin(int registers = 42, int architecture = 90,
                      const std::string& symbol = kKernelSymbol);

// What ptxas says of a kernel without trouble.
std::string FakeLog(int registers = 42, int shared_memory_bytes = 1024);

}  // namespace gemmd::jit

#endif  // GEMMD_TESTS_JIT_FAKE_CUBIN_H_
