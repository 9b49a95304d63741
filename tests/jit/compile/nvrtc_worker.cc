// A program that is nothing but a compile worker.
#include "jit/compile/compile_worker.h"

int main(int argc, char** argv) {
  return gemmd::jit::RunIfCompileWorker(argc, argv).value_or(2);
}
