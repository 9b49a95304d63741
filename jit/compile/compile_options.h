// The whole command line that an instance is compiled with.
#ifndef GEMMD_JIT_COMPILE_COMPILE_OPTIONS_H_
#define GEMMD_JIT_COMPILE_COMPILE_OPTIONS_H_

#include <string>
#include <vector>

#include "jit/compile/nvrtc_library.h"
#include "jit/source/instance.h"

namespace gemmd::jit {

// NVRTC writes the program's name into the cubin, so it is the same for all.
inline constexpr char kProgramName[] = "gemmd.cu";

// Options of `instance`, completed by what every compile needs unless the
// instance sets it. All of them are part of the cache key.
std::vector<std::string> CompileOptions(const Instance& instance,
                                        NvrtcVersion version);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_COMPILE_COMPILE_OPTIONS_H_
