// What a tuner measured: the best way to run a problem on a device.
//
// A record holds for one class of problems (equal but for the values of alpha
// and beta, and for which operands are broadcast), one device product and one
// digest of the templates: with other templates the same config is another
// kernel, so changing them retires every record.
//
// The bits of a product depend on nothing of its plan but the parts of k that
// it is summed in, Plan::splits: kernels with equal splits, in either
// orientation, give the same. A record keeps the splits that its problem had
// before, unless a new generation was asked for.
#ifndef GEMMD_JIT_PLAN_TUNING_RECORD_H_
#define GEMMD_JIT_PLAN_TUNING_RECORD_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "jit/plan/plan.h"
#include "jit/problem/problem.h"

namespace gemmd::jit {

struct TuningRecord {
  std::string problem_class;    // ProblemClass().
  std::string device;           // "NVIDIA H100 80GB HBM3".
  std::string template_digest;  // TemplateLibrary::Digest().
  // Of the plan: what jit/plan/tuned_plan.h makes it again from.
  std::string kernel;  // KernelName().
  bool exchanged = false;
  int splits = 1;
  int raster_group = 1;
  int64_t nanoseconds = 0;            // Of one product, median.
  int64_t predicted_nanoseconds = 0;  // By the cost model.
  // How often the splits of this problem have been changed; those that the
  // planner chooses are generation 0.
  int generation = 0;
  std::string provenance;  // Which program measured: "gemmd 0.1.0".

  friend bool operator==(const TuningRecord&, const TuningRecord&) = default;
};

// Whether `next` may take the place of `there`, a record of the same key.
// Others may have seen the splits of a generation: they stay, and those of an
// older one do not come back. Of two jobs that change them at a time the first
// one counts.
inline bool MayReplace(const TuningRecord& next, const TuningRecord& there) {
  return next.generation > there.generation ||
         (next.generation == there.generation && next.splits == there.splits);
}

// The class of `problem`, folded, as a line (jit/problem/problem_line.h) of its
// own: with an alpha of 0, 1, or 2 for all others, a beta of 0 or 1, and with
// nothing broadcast, which shapes no kernel.
std::string ProblemClass(const Problem& problem);

// Name of the file of a record, 64 hexadecimal digits.
std::string TuningKey(absl::string_view problem_class, absl::string_view device,
                      absl::string_view template_digest);

std::string EncodeTuningRecord(const TuningRecord& record);
// DATA_LOSS says what is wrong; any bytes may be given.
absl::StatusOr<TuningRecord> DecodeTuningRecord(absl::string_view bytes);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PLAN_TUNING_RECORD_H_
