// What a tuner measured: the best way to run a class of problems on a device.
//
// A record holds for the problems of one class (equal but for m, n and k, and
// those within an eighth or so of each other), one device product and one
// digest of the templates: with other templates the same config is another
// kernel, so changing them retires every record.
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
  // Of the plan: enough to find it among those of RankPlans.
  std::string kernel;  // KernelName().
  bool exchanged = false;
  int splits = 1;
  int raster_group = 1;
  int64_t nanoseconds = 0;  // Of one launch, median.
  std::string provenance;   // Which program measured: "gemmd 0.1.0".

  friend bool operator==(const TuningRecord&, const TuningRecord&) = default;
};

// The class of `problem` as the line (jit/problem/problem_line.h) of its
// largest member: m, n and k rounded up to four steps per power of two, alpha
// 1, beta 0 or 1.
std::string ProblemClass(const Problem& problem);

// Name of the file of a record, 64 hexadecimal digits.
std::string TuningKey(absl::string_view problem_class, absl::string_view device,
                      absl::string_view template_digest);

// Whether `plan` is the one that `record` found best.
bool Matches(const TuningRecord& record, const Plan& plan);

std::string EncodeTuningRecord(const TuningRecord& record);
// DATA_LOSS says what is wrong; any bytes may be given.
absl::StatusOr<TuningRecord> DecodeTuningRecord(absl::string_view bytes);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PLAN_TUNING_RECORD_H_
