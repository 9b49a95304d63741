// What the daemon shows of itself over HTTP: /metrics, for Prometheus, and where
// it is asked for a page for people, which reads /status.json.
#ifndef GEMMD_SERVICE_MONITOR_MONITOR_H_
#define GEMMD_SERVICE_MONITOR_MONITOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/engine/engine.h"
#include "service/monitor/fresh.h"
#include "service/monitor/http_server.h"
#include "service/monitor/nvml.h"
#include "service/rpc/server.h"

namespace gemmd::monitor {

class Monitor {
 public:
  struct Options {
    std::string listen;  // As an address of rpc::Server; empty: nothing.
    bool allow_nonloopback = false;
    bool status_page = false;
    std::string nvml = "libnvidia-ml.so.1";
  };

  // Both outlive the monitor. Errors are those of HttpServer::Start;
  // INVALID_ARGUMENT where other machines could reach it and may not.
  static absl::StatusOr<std::unique_ptr<Monitor>> Start(
      const Options& options, const rpc::Server& server,
      engine::Engine& engine);

  const std::string& address() const { return http_->address(); }

 private:
  Monitor(const Options& options, const rpc::Server& server,
          engine::Engine& engine);

  HttpResponse Answer(absl::string_view path);
  std::string Metrics();

  const rpc::Runtime& runtime_;
  engine::Engine& engine_;
  const Nvml nvml_;
  const bool status_page_;
  Fresh metrics_;
  Fresh status_;
  std::unique_ptr<HttpServer> http_;  // Last: its thread uses the rest.
};

}  // namespace gemmd::monitor

#endif  // GEMMD_SERVICE_MONITOR_MONITOR_H_
