// Products on the emulator: operands, forms, launches and the comparison
// with the host device's arithmetic. Integers that every sum holds exactly, so
// that results are equal bit for bit. Thread-compatible.
#ifndef GEMMD_TESTS_EMULATOR_PRODUCT_H_
#define GEMMD_TESTS_EMULATOR_PRODUCT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/emulator/case.h"
#include "tests/emulator/machine/reports.h"
#include "tests/emulator/module.h"

namespace gemmd::emulator {

// The kernels that a case needs, compiled.
struct Kernels {
  std::unique_ptr<Module> product;
  std::unique_ptr<Module> a_form;  // Null where the operand is as stored.
  std::unique_ptr<Module> b_form;
};

// `templates` as Module::Compile takes it.
absl::StatusOr<Kernels> CompileCase(const Case& c,
                                    const std::string& templates = "");

// Runs one of the launches of the case; what was undefined, and where D is
// wrong. Empty when all is well.
absl::StatusOr<std::vector<std::string>> RunLaunch(
    const Case& c, const Kernels& kernels,
    absl::Span<const jit::Problem> problems, uint64_t seed);

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_PRODUCT_H_
