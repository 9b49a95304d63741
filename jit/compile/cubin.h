// What a cubin says of itself. Reads the ELF file that the driver would load,
// without a driver.
#ifndef GEMMD_JIT_COMPILE_CUBIN_H_
#define GEMMD_JIT_COMPILE_CUBIN_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "jit/compile/compiled_kernel.h"

namespace gemmd::jit {

struct CubinFacts {
  int architecture = 0;  // 90 for sm_90 and sm_90a.
  int registers = 0;     // Of kKernelSymbol, per thread.
};

// DATA_LOSS when `cubin` is not a cubin that defines kKernelSymbol; any bytes
// may be given.
absl::StatusOr<CubinFacts> ReadCubin(absl::string_view cubin);

// DATA_LOSS when the cubin is not for sm_90 or contradicts what is recorded of
// it: such a kernel must not be launched.
absl::Status CheckCubin(const CompiledKernel& kernel);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_COMPILE_CUBIN_H_
