#include "tests/bench/wire/report.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace gemmd::wire {
namespace {

// Not empty.
double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  if (values.size() % 2 == 1) return values[half];
  return (values[half - 1] + values[half]) / 2;
}

std::string List(const std::vector<double>& values) {
  return absl::StrCat("[",
                      absl::StrJoin(values, ", ",
                                    [](std::string* out, double value) {
                                      absl::StrAppendFormat(out, "%.6f", value);
                                    }),
                      "]");
}

}  // namespace

std::string TableHead() {
  return "| way | clients | bare, GB/s | gemmd, bare client | ratio "
         "| gemmd, C++ client | ratio |\n"
         "|---|---|---|---|---|---|---|\n";
}

std::string TableLine(const Row& row) {
  const double bare = Median(row.rates.bare);
  const double daemon = Median(row.rates.daemon);
  const double client = Median(row.rates.client);
  return absl::StrFormat("| %s | %d | %.2f | %.2f | %.2f | %.2f | %.2f |\n",
                         NameOf(row.way), row.clients, bare, daemon,
                         daemon / bare, client, client / bare);
}

std::string Json(const Load& load, const ContestOptions& options,
                 absl::Span<const Row> rows) {
  std::string json = absl::StrFormat(
      "{\n \"tensor_bytes\": %d,\n \"product\": \"%s\",\n"
      " \"round_s\": %.3f,\n \"rows\": [",
      load.tensor_bytes, load.line, absl::ToDoubleSeconds(options.duration));
  const char* separator = "\n";
  for (const Row& row : rows) {
    const double bare = Median(row.rates.bare);
    const double daemon = Median(row.rates.daemon);
    const double client = Median(row.rates.client);
    absl::StrAppendFormat(
        &json,
        "%s  {\"way\": \"%s\", \"clients\": %d, \"sent_bytes\": %d, "
        "\"returned_bytes\": %d,\n"
        "   \"bare_gb_s\": %.6f, \"daemon_gb_s\": %.6f, "
        "\"client_gb_s\": %.6f, \"daemon_ratio\": %.6f, "
        "\"client_ratio\": %.6f,\n"
        "   \"rounds\": {\"bare\": %s, \"daemon\": %s, \"client\": %s}}",
        separator, NameOf(row.way), row.clients, load.sent_bytes(row.way),
        load.returned_bytes(row.way), bare, daemon, client, daemon / bare,
        client / bare, List(row.rates.bare), List(row.rates.daemon),
        List(row.rates.client));
    separator = ",\n";
  }
  return json + "\n ]\n}\n";
}

}  // namespace gemmd::wire
