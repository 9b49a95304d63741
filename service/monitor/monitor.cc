#include "service/monitor/monitor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "service/metrics/exposition.h"
#include "service/monitor/collect.h"
#include "service/monitor/page.h"
#include "service/monitor/rejections.h"
#include "service/monitor/status.h"
#include "service/rpc/address.h"

namespace gemmd::monitor {
namespace {

constexpr absl::Duration kMetricsAge = absl::Milliseconds(50);
// It looks at every shape that is known.
constexpr absl::Duration kStatusAge = absl::Seconds(1);
constexpr char kPrometheusText[] = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace

Monitor::Monitor(const Options& options, const rpc::Server& server,
                 engine::Engine& engine)
    : runtime_(server.runtime()),
      engine_(engine),
      nvml_(options.nvml),
      status_page_(options.status_page),
      metrics_(kMetricsAge, [this] { return Metrics(); }),
      status_(kStatusAge, [this] { return StatusJson(runtime_, engine_); }) {}

absl::StatusOr<std::unique_ptr<Monitor>> Monitor::Start(
    const Options& options, const rpc::Server& server, engine::Engine& engine) {
  if (!options.allow_nonloopback && !rpc::IsLocal(options.listen)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--metrics-listen is ", options.listen,
        ", which other machines can reach, and is plaintext also with "
        "--tls-certificate-file; allowed: loopback or unix: addresses, or any "
        "with --allow-plaintext-nonloopback"));
  }
  std::unique_ptr<Monitor> monitor(new Monitor(options, server, engine));
  ASSIGN_OR_RETURN(
      monitor->http_,
      HttpServer::Start(options.listen,
                        [monitor = monitor.get()](absl::string_view path) {
                          return monitor->Answer(path);
                        }));
  return monitor;
}

HttpResponse Monitor::Answer(absl::string_view path) {
  if (path == "/metrics") return {200, kPrometheusText, metrics_.Get()};
  if (status_page_) {
    if (path == "/") return {200, "text/html; charset=utf-8", kPageHtml};
    if (path == "/status.js") {
      return {200, "text/javascript; charset=utf-8", kPageScript};
    }
    if (path == "/status.css") {
      return {200, "text/css; charset=utf-8", kPageStyle};
    }
    if (path == "/status.json") {
      return {200, "application/json", status_.Get()};
    }
  }
  return {404, "text/plain; charset=utf-8", "there is /metrics\n"};
}

std::string Monitor::Metrics() {
  metrics::Exposition values;
  CollectServer(runtime_, values);
  CollectDevices(engine_, nvml_, values);
  CollectCache(engine_, values);
  for (const auto& [reason, count] : AllRejections(runtime_, engine_)) {
    values.Add(metrics::Metric::kRejections, count, {reason});
  }
  CollectProcess(values);
  return values.Text();
}

}  // namespace gemmd::monitor
