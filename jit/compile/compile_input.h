// What may reach the compiler: nothing that makes it open a file.
//
// Cache entries, bundles and shared servers hold sources and options that
// strangers may have written, and a compiler obeys both: "--time=FILE" writes
// a file, "#include" reads one. Whoever compiles asks here first.
#ifndef GEMMD_JIT_COMPILE_COMPILE_INPUT_H_
#define GEMMD_JIT_COMPILE_COMPILE_INPUT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gemmd::jit {

// INTERNAL, as if the compiler had rejected the source, unless every option is
// one that this program gives by itself and `source` asks for no file. A
// source that only mentions "#include" in a comment is refused too: ours,
// expanded, do not.
absl::Status CheckCompileInput(absl::string_view source,
                               const std::vector<std::string>& options);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_COMPILE_COMPILE_INPUT_H_
