// Who takes part: our kernels for every problem, compiled up front so that no
// race waits for a compiler.
#ifndef GEMMD_TESTS_BENCH_ENTRIES_H_
#define GEMMD_TESTS_BENCH_ENTRIES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "jit/cache/kernel_cache.h"
#include "jit/source/template_library.h"
#include "service/device/device.h"
#include "tests/bench/options.h"
#include "tests/bench/our_product.h"

namespace gemmd::bench {

class Entries {
 public:
  // Compiles in parallel. What does not compile is reported on standard error
  // and left out: a tuner wants to see the others.
  static absl::StatusOr<Entries> Prepare(const Options& options,
                                         const device::Description& device,
                                         const jit::TemplateLibrary& templates,
                                         jit::KernelCache& cache);

  // Of options.problems[i]; empty when none compiled.
  const std::vector<Choice>& operator[](size_t i) const { return choices_[i]; }
  // Whether everything compiled.
  bool complete() const { return complete_; }

 private:
  std::vector<std::vector<Choice>> choices_;
  bool complete_ = true;
};

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_ENTRIES_H_
