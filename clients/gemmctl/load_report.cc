#include "clients/gemmctl/load_report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gemmd::gemmctl {
namespace {

using google::protobuf::Struct;

struct Share {
  const char* name;
  double q;
};
constexpr Share kShares[] = {
    {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}};

double Us(absl::Duration time) { return absl::ToDoubleMicroseconds(time); }

// A second, of requests that succeeded.
struct Rates {
  double requests = 0;
  double products = 0;  // Of these.
  double operations = 0;
  double sent_bytes = 0;
  double returned_bytes = 0;
};

Rates RatesOf(const LoadResult& result,
              const std::vector<std::unique_ptr<Work>>& works) {
  Rates rates;
  for (size_t i = 0; i < works.size(); ++i) {
    const auto count = static_cast<double>(result.by_work[i].latency.count());
    rates.requests += count;
    rates.products += count * static_cast<double>(works[i]->products());
    rates.operations += count * works[i]->operations();
    rates.sent_bytes += count * static_cast<double>(works[i]->sent_bytes());
    rates.returned_bytes +=
        count * static_cast<double>(works[i]->returned_bytes());
  }
  const double seconds = std::max(absl::ToDoubleSeconds(result.elapsed), 1e-9);
  for (double* rate : {&rates.requests, &rates.products, &rates.operations,
                       &rates.sent_bytes, &rates.returned_bytes}) {
    *rate /= seconds;
  }
  return rates;
}

Tally SumOf(const LoadResult& result) {
  Tally sum;
  for (const Tally& tally : result.by_work) sum.Merge(tally);
  return sum;
}

int64_t FailuresOf(const Tally& tally) {
  int64_t sum = 0;
  for (const auto& [code, failures] : tally.failures) sum += failures.count;
  return sum;
}

std::string Row(absl::string_view name, const Histogram& times) {
  std::string row = absl::StrFormat("%-10s %9d %11.1f", name, times.count(),
                                    Us(times.mean()));
  for (const Share& share : kShares) {
    absl::StrAppendFormat(&row, " %11.1f", Us(times.Quantile(share.q)));
  }
  absl::StrAppendFormat(&row, " %11.1f\n", Us(times.max()));
  return row;
}

void Set(Struct& to, const std::string& name, double number) {
  (*to.mutable_fields())[name].set_number_value(number);
}
void Set(Struct& to, const std::string& name, const std::string& text) {
  (*to.mutable_fields())[name].set_string_value(text);
}
Struct& Inner(Struct& of, const std::string& name) {
  return *(*of.mutable_fields())[name].mutable_struct_value();
}

void SetTimes(const Histogram& times, Struct& to) {
  Set(to, "count", static_cast<double>(times.count()));
  Set(to, "mean_us", Us(times.mean()));
  for (const Share& share : kShares) {
    Set(to, absl::StrCat(share.name, "_us"), Us(times.Quantile(share.q)));
  }
  Set(to, "max_us", Us(times.max()));
}

void SetTally(const Tally& tally, Struct& to) {
  SetTimes(tally.latency, Inner(to, "latency"));
  Struct& phases = Inner(to, "phases");
  for (int i = 0; i < kPhases; ++i) {
    SetTimes(tally.phases[i], Inner(phases, kPhaseNames[i]));
  }
  Struct& errors = Inner(to, "errors");
  for (const auto& [code, failures] : tally.failures) {
    Struct& error = Inner(errors, absl::StatusCodeToString(code));
    Set(error, "count", static_cast<double>(failures.count));
    Set(error, "first", failures.first);
  }
}

}  // namespace

std::string LoadText(const LoadOptions& options, const LoadResult& result,
                     const std::vector<std::unique_ptr<Work>>& works) {
  const Tally sum = SumOf(result);
  const Rates rates = RatesOf(result, works);
  std::string text = absl::StrFormat(
      "%s, at most %d in flight, connections: %d, %s\n"
      "%d requests (%.1f/s), %d failed; %.1f products/s, %.3f TFLOP/s; sent "
      "%.1f MB/s, received %.1f MB/s\n",
      options.rate > 0 ? absl::StrFormat("open loop of %g/s", options.rate)
                       : "closed loop",
      options.concurrency, options.connections,
      absl::FormatDuration(result.elapsed), sum.latency.count(), rates.requests,
      FailuresOf(sum), rates.products, rates.operations / 1e12,
      rates.sent_bytes / 1e6, rates.returned_bytes / 1e6);
  if (result.unsent > 0) {
    absl::StrAppendFormat(&text,
                          "%d were due and never sent: the rate is higher than "
                          "what came back\n",
                          result.unsent);
  }
  absl::StrAppendFormat(&text, "%-10s %9s %11s %11s %11s %11s %11s %11s\n",
                        "us", "requests", "mean", kShares[0].name,
                        kShares[1].name, kShares[2].name, kShares[3].name,
                        "max");
  absl::StrAppend(&text, Row("latency", sum.latency));
  for (int i = 0; i < kPhases; ++i) {
    absl::StrAppend(&text,
                    Row(absl::StrCat("  ", kPhaseNames[i]), sum.phases[i]));
  }
  if (works.size() > 1) {
    for (size_t i = 0; i < works.size(); ++i) {
      absl::StrAppend(&text, works[i]->name(), "\n",
                      Row("", result.by_work[i].latency));
    }
  }
  for (const auto& [code, failures] : sum.failures) {
    absl::StrAppend(&text, absl::StatusCodeToString(code), ": ", failures.count,
                    ", such as: ", failures.first, "\n");
  }
  return text;
}

Struct LoadJson(const LoadOptions& options, const LoadResult& result,
                const std::vector<std::unique_ptr<Work>>& works) {
  Struct json;
  const Tally sum = SumOf(result);
  const Rates rates = RatesOf(result, works);
  Set(json, "loop", std::string(options.rate > 0 ? "open" : "closed"));
  Set(json, "rate", options.rate);
  Set(json, "concurrency", options.concurrency);
  Set(json, "connections", options.connections);
  Set(json, "elapsed_s", absl::ToDoubleSeconds(result.elapsed));
  Set(json, "requests", static_cast<double>(sum.latency.count()));
  Set(json, "failed", static_cast<double>(FailuresOf(sum)));
  Set(json, "unsent", static_cast<double>(result.unsent));
  Set(json, "requests_per_s", rates.requests);
  Set(json, "products_per_s", rates.products);
  Set(json, "operations_per_s", rates.operations);
  Set(json, "sent_bytes_per_s", rates.sent_bytes);
  Set(json, "received_bytes_per_s", rates.returned_bytes);
  SetTally(sum, json);
  auto& list = *(*json.mutable_fields())["works"].mutable_list_value();
  for (size_t i = 0; i < works.size(); ++i) {
    Struct& one = *list.add_values()->mutable_struct_value();
    Set(one, "name", works[i]->name());
    SetTally(result.by_work[i], one);
  }
  return json;
}

}  // namespace gemmd::gemmctl
