// The text of an instance for the host's compiler: the product's own, with the
// one generated instruction given to the emulator. Pure functions.
#ifndef GEMMD_TESTS_EMULATOR_HOST_SOURCE_H_
#define GEMMD_TESTS_EMULATOR_HOST_SOURCE_H_

#include <string>

#include "absl/status/statusor.h"
#include "jit/plan/plan.h"

namespace gemmd::emulator {

// Templates are included, not copied, so that a debugger shows them; compile
// with tests/emulator before templates in the path.
absl::StatusOr<std::string> HostSource(const jit::Family& family,
                                       const jit::Config& config);

// The kernel that derives a form.
absl::StatusOr<std::string> HostPrepareSource(jit::Form form,
                                              jit::DataType type);

// The kernel that changes the pitch of a matrix.
absl::StatusOr<std::string> HostRepitchSource();

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_HOST_SOURCE_H_
