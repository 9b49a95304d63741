#include "service/monitor/status.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "jit/base/printable.h"
#include "jit/base/steady_time.h"
#include "service/monitor/rejections.h"

namespace gemmd::monitor {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShapesOfDevice = 20;

Json Queue(const engine::Executor& executor) {
  return {{"waiting", executor.places().taken()},
          {"limit", executor.places().limit()},
          {"running", executor.activity().running}};
}

Json Devices(engine::Engine& engine) {
  Json devices = Json::array();
  for (int i = 0; i < engine.device_count(); ++i) {
    const engine::ServedDevice& served = engine.served(i);
    const device::Description& what = served.device->description();
    const bool up = !served.health.failed();
    devices.push_back(
        {{"name", what.name},
         {"product", what.product},
         {"up", up},
         {"memory_bytes", what.memory_bytes},
         {"free_bytes", up ? served.device->FreeBytes() : 0},
         {"tensor_bytes", engine.tensors().bytes(i)},
         {"tensor_limit_bytes", engine.tensors().max_bytes(i)},
         {"kernels", served.kernels->loaded()},
         {"shapes", served.kernels->shapes()},
         {"operations", served.counts.operations.load()},
         {"busy_s", absl::ToDoubleSeconds(served.products->busy())},
         {"products", Queue(*served.products)},
         {"transfers", Queue(*served.transfers)}});
  }
  return devices;
}

Json Shapes(engine::Engine& engine) {
  Json shapes = Json::array();
  for (int i = 0; i < engine.device_count(); ++i) {
    const engine::ServedDevice& served = engine.served(i);
    for (const auto& used : served.kernels->MostUsed(kShapesOfDevice)) {
      shapes.push_back({{"device", served.device->description().name},
                        {"problem", jit::DebugString(used.problem)},
                        {"kernel", used.kernel},
                        {"runs", used.runs},
                        {"execute_s", absl::ToDoubleSeconds(used.execute)},
                        {"operations", engine::Operations(used.problem)}});
    }
  }
  return shapes;
}

Json Calls(const rpc::CallMetrics& metrics) {
  Json calls = Json::array();
  for (const auto& [name, method] : metrics.methods()) {
    for (size_t code = 0; code < rpc::CallMetrics::kCodes; ++code) {
      int64_t count = 0;
      for (const auto& by_code : method->ended) count += by_code[code];
      if (count == 0) continue;
      calls.push_back({{"method", name},
                       {"code", absl::StatusCodeToString(
                                    static_cast<absl::StatusCode>(code))},
                       {"count", count}});
    }
  }
  std::sort(calls.begin(), calls.end());
  return calls;
}

Json Rejections(const rpc::Runtime& runtime, engine::Engine& engine) {
  Json rejections = Json::array();
  for (const auto& [reason, count] : AllRejections(runtime, engine)) {
    rejections.push_back({{"reason", reason}, {"count", count}});
  }
  return rejections;
}

Json Cache(engine::Engine& engine) {
  Json cache = Json::array();
  for (const jit::TierStatistics& tier : engine.cache().statistics().tiers) {
    cache.push_back({{"name", tier.name},
                     {"hits", tier.hits},
                     {"misses", tier.misses},
                     {"errors", tier.errors},
                     {"bytes_loaded", tier.bytes_loaded},
                     {"bytes_stored", tier.bytes_stored}});
  }
  return cache;
}

Json Errors(const rpc::RecentFailures& failures) {
  Json errors = Json::array();
  for (const rpc::RecentFailures::Failure& failure : failures.List()) {
    errors.push_back(
        {{"time", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", failure.time,
                                   absl::UTCTimeZone())},
         {"id", failure.id},
         {"method", jit::Printable(failure.method)},
         {"code", absl::StatusCodeToString(failure.code)},
         {"message", jit::Printable(failure.message)}});
  }
  return errors;
}

}  // namespace

std::string StatusJson(const rpc::Runtime& runtime, engine::Engine& engine) {
  const Json status = {
      {"version", runtime.facts.version},
      {"uptime_s", absl::ToDoubleSeconds(jit::SteadyNow() - runtime.started)},
      {"serving", runtime.health.serving()},
      {"in_flight", runtime.places.load()},
      {"connections", runtime.calls.connections()},
      {"compile_waiting", engine.preparer().waiting()},
      {"devices", Devices(engine)},
      {"shapes", Shapes(engine)},
      {"calls", Calls(runtime.metrics)},
      {"rejections", Rejections(runtime, engine)},
      {"cache", Cache(engine)},
      {"errors", Errors(runtime.failures)}};
  return status.dump(-1, ' ', /*ensure_ascii=*/true,
                     Json::error_handler_t::replace);
}

}  // namespace gemmd::monitor
