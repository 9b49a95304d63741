// An instance: one self-contained translation unit for NVRTC, made from a
// template, a family and a config. Thread-compatible.
#ifndef GEMMD_JIT_SOURCE_INSTANCE_H_
#define GEMMD_JIT_SOURCE_INSTANCE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "jit/plan/plan.h"
#include "jit/source/source.h"
#include "jit/source/template_library.h"

namespace gemmd::jit {

struct Instance {
  std::string name;  // KernelName(); for people, not part of the key.
  Source source;     // All includes expanded: the whole input of NVRTC.
  std::vector<std::string> options;
};

// Symbol of the kernel in every cubin, and of the reduction that a split-k
// cubin holds besides.
inline constexpr char kKernelSymbol[] = "gemmd_kernel";
inline constexpr char kReduceSymbol[] = "gemmd_reduce";
inline constexpr char kLineBitsSymbol[] = "gemmd_line_bits";

// The GEMM kernel of `family` and `config`. Errors: NOT_FOUND when a template
// file is missing from an overriding directory.
absl::StatusOr<Instance> MakeInstance(const TemplateLibrary& templates,
                                      const Family& family,
                                      const Config& config);

// The kernel that changes the pitch of a matrix of bytes: see
// templates/kernels/repitch.cu.
absl::StatusOr<Instance> MakeRepitchInstance(const TemplateLibrary& templates);

// The kernel that derives `form`, which is not kStored, of operands of `type`:
// see templates/kernels/prepare and jit/plan/form.h.
absl::StatusOr<Instance> MakePrepareInstance(const TemplateLibrary& templates,
                                             Form form, DataType type);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_SOURCE_INSTANCE_H_
