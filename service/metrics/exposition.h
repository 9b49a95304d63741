// Values of metrics at one moment, as Prometheus reads them (text format
// 0.0.4). A metric without values is left out. Thread-compatible.
#ifndef GEMMD_SERVICE_METRICS_EXPOSITION_H_
#define GEMMD_SERVICE_METRICS_EXPOSITION_H_

#include <prometheus/metric_family.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "service/metrics/histogram.h"
#include "service/metrics/metric.h"

namespace gemmd::metrics {

class Exposition {
 public:
  using Labels = std::initializer_list<absl::string_view>;

  Exposition();

  // `labels` are the values of those that the table names, in its order: never
  // what a client chose, so that there are few.
  void Add(Metric metric, double value, Labels labels = {});
  void Add(Metric metric, const Histogram::Snapshot& values,
           Labels labels = {});

  std::string Text() const;

 private:
  prometheus::ClientMetric& Next(Metric metric, Labels labels);

  std::vector<prometheus::MetricFamily> families_;  // By metric.
};

}  // namespace gemmd::metrics

#endif  // GEMMD_SERVICE_METRICS_EXPOSITION_H_
