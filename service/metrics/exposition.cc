#include "service/metrics/exposition.h"

#include <prometheus/text_serializer.h>

#include <limits>
#include <utility>

#include "jit/base/status.h"

namespace gemmd::metrics {
namespace {

prometheus::MetricType TypeOf(Kind kind) {
  switch (kind) {
    case Kind::kCounter:
      return prometheus::MetricType::Counter;
    case Kind::kGauge:
      return prometheus::MetricType::Gauge;
    case Kind::kHistogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

}  // namespace

Exposition::Exposition() {
  for (size_t i = 0; i < kMetrics; ++i) {
    const Description& description = Describe(static_cast<Metric>(i));
    families_.push_back({std::string(description.name),
                         std::string(description.help),
                         TypeOf(description.kind),
                         {}});
  }
}

prometheus::ClientMetric& Exposition::Next(Metric metric, Labels labels) {
  const Description& description = Describe(metric);
  CHECK(labels.size() == description.labels.size());
  auto& values = families_[static_cast<size_t>(metric)].metric;
  prometheus::ClientMetric& value = values.emplace_back();
  auto name = description.labels.begin();
  for (const absl::string_view label : labels) {
    value.label.push_back({*name++, std::string(label)});
  }
  return value;
}

void Exposition::Add(Metric metric, double value, Labels labels) {
  const Kind kind = Describe(metric).kind;
  CHECK(kind != Kind::kHistogram);
  prometheus::ClientMetric& next = Next(metric, labels);
  (kind == Kind::kCounter ? next.counter.value : next.gauge.value) = value;
}

void Exposition::Add(Metric metric, const Histogram::Snapshot& values,
                     Labels labels) {
  CHECK(Describe(metric).kind == Kind::kHistogram);
  auto& histogram = Next(metric, labels).histogram;
  uint64_t below = 0;
  for (size_t i = 0; i < Histogram::kBuckets; ++i) {
    below += static_cast<uint64_t>(values.counts[i]);
    const double bound =
        i < Histogram::kBoundsUs.size()
            ? static_cast<double>(Histogram::kBoundsUs[i]) / 1e6
            : std::numeric_limits<double>::infinity();
    histogram.bucket.push_back({below, bound});
  }
  histogram.sample_count = below;
  histogram.sample_sum = values.sum_s;
}

std::string Exposition::Text() const {
  std::vector<prometheus::MetricFamily> present;
  for (const prometheus::MetricFamily& family : families_) {
    if (!family.metric.empty()) present.push_back(family);
  }
  return prometheus::TextSerializer().Serialize(present);
}

}  // namespace gemmd::metrics
