// What is kept of one compiled instance: by caches, bundles and devices.
#ifndef GEMMD_JIT_COMPILE_COMPILED_KERNEL_H_
#define GEMMD_JIT_COMPILE_COMPILED_KERNEL_H_

#include <cstdint>
#include <string>
#include <vector>

namespace gemmd::jit {

// Everything known of one compiled instance. Immutable once published.
struct CompiledKernel {
  std::string key;   // SHA-256, 64 hexadecimal digits.
  std::string name;  // Instance::name.
  std::string source;
  std::vector<std::string> options;  // Compiler::CommandLine().
  std::string compiler;              // Compiler::identity().
  std::string log;                   // What NVRTC and ptxas said.
  std::string cubin;
  int registers = 0;  // Per thread.
  int static_shared_memory_bytes = 0;
  int spill_bytes = 0;
  int64_t compile_ms = 0;
  std::string provenance;  // Which program made it: "gemmd 0.1.0".
};

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_COMPILE_COMPILED_KERNEL_H_
