#include "service/metrics/metric.h"

#include "absl/strings/str_split.h"

namespace gemmd::metrics {

const Description& Describe(Metric metric) {
  static const auto& all = *new std::vector<Description>({
#define M(id, kind, name, labels, help) \
  {Kind::k##kind, name, absl::StrSplit(labels, ' ', absl::SkipEmpty()), help},
#include "service/metrics/table.inc"
#undef M
  });
  return all[static_cast<size_t>(metric)];
}

}  // namespace gemmd::metrics
