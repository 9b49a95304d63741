// The mistakes that mutations_test.cc plants: one is a row here.
#ifndef GEMMD_TESTS_EMULATOR_MUTATIONS_H_
#define GEMMD_TESTS_EMULATOR_MUTATIONS_H_

#include <vector>

namespace gemmd::emulator {

struct Mutation {
  const char* name;
  const char* file;  // Below templates/.
  const char* from;  // Stands there once.
  const char* to;
  const char* line;   // Of the case: what follows its name.
  const char* cause;  // What some report says.
};

const std::vector<Mutation>& Mutations();

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MUTATIONS_H_
