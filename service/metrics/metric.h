// What the daemon tells of itself, by name: table.inc has one line for each.
// Immutable.
#ifndef GEMMD_SERVICE_METRICS_METRIC_H_
#define GEMMD_SERVICE_METRICS_METRIC_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace gemmd::metrics {

enum class Metric {
#define M(id, kind, name, labels, help) k##id,
#include "service/metrics/table.inc"
#undef M
  kCount,
};
inline constexpr size_t kMetrics = static_cast<size_t>(Metric::kCount);

enum class Kind { kCounter, kGauge, kHistogram };

struct Description {
  Kind kind;
  absl::string_view name;
  std::vector<std::string> labels;
  absl::string_view help;
};

const Description& Describe(Metric metric);

}  // namespace gemmd::metrics

#endif  // GEMMD_SERVICE_METRICS_METRIC_H_
