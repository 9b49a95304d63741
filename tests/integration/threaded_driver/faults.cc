#include "tests/integration/threaded_driver/faults.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace gemmd::threaded_driver {
namespace {

// -1: no such file, or no number in it.
int NumberIn(const std::string& name) {
  static const char* const folder = std::getenv("GEMMD_TEST_DRIVER_FAULTS");
  if (folder == nullptr) return -1;
  std::ifstream file(std::string(folder) + "/" + name);
  int number = -1;
  return file >> number ? number : -1;
}

}  // namespace

CUresult FaultOf(const std::string& function, int device) {
  if (NumberIn("lost") == device) return CUDA_ERROR_LAUNCH_FAILED;
  const int fault = NumberIn(function);
  return fault < 0 ? CUDA_SUCCESS : static_cast<CUresult>(fault);
}

bool Hangs(int device) { return NumberIn("hangs") == device; }

void Misused(const std::string& what) {
  std::fprintf(stderr, "threaded driver: %s\n", what.c_str());
  std::abort();
}

}  // namespace gemmd::threaded_driver
