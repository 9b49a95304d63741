// Why a result may be wrong: which mistake would have given what is there.
// Pure functions.
#ifndef GEMMD_TESTS_EMULATOR_EXPLAIN_H_
#define GEMMD_TESTS_EMULATOR_EXPLAIN_H_

#include <string>

#include "jit/problem/problem.h"
#include "tests/emulator/operands.h"

namespace gemmd::emulator {

// Words for the first of: elements never written; another alpha or beta; a
// stage or part of k left out; other lines of C; lines or elements displaced;
// pieces of 16 bytes of lines in another order. Empty where none of these is
// it.
std::string Explain(const jit::Problem& problem, const Operands& operands,
                    const std::string& expected);

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_EXPLAIN_H_
