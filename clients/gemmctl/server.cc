// gemmctl info, stats and health.
#include <cstdio>
#include <memory>
#include <string>

#include "clients/gemmctl/command.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {
namespace {

// A daemon that is well answers at once.
constexpr absl::Duration kTimeout = absl::Minutes(1);

void Print(const v1::ServerInfo& info) {
  Show(stdout, "gemmd %s, templates %s\ncompiler: %s\n", info.version(),
       info.template_digest(), info.compiler());
  for (const v1::DeviceInfo& device : info.devices()) {
    Show(stdout, "device %s: %s, %d multiprocessors, %d of %d MiB free%s%s\n",
         device.name(), device.description(), device.multiprocessors(),
         device.free_bytes() >> 20, device.memory_bytes() >> 20,
         device.driver().empty() ? "" : ", driver ", device.driver());
    if (device.uuid().empty()) continue;
    const char* const shared = device.shares_vmm() && device.shares_ipc()
                                   ? "by descriptor or legacy IPC"
                               : device.shares_vmm() ? "by descriptor"
                               : device.shares_ipc() ? "by legacy IPC"
                                                     : "not to be shared";
    Show(stdout, "  %s, memory of clients %s\n", device.uuid(), shared);
  }
  const v1::Limits& limits = info.limits();
  Show(stdout,
       "limits: messages %d bytes, dimensions %d, tensors %d bytes, tensor "
       "lifetime %d s, queue %d\n",
       limits.max_message_bytes(), limits.max_dimension(),
       limits.max_tensor_bytes(), limits.tensor_ttl_s(), limits.max_queue());
  for (const std::string& missing : info.missing()) {
    Show(stdout, "missing: %s\n", missing);
  }
}

void Print(const v1::Statistics& s) {
  const v1::CacheStatistics& cache = s.cache();
  Show(stdout,
       "up %d s; %d requests, %d failed, %d queued\n"
       "%d tensors, %d bytes; received %d bytes, sent %d bytes\n"
       "kernels: %d loaded hits, %d memory hits, %d disk hits, %d compiles, %d "
       "compile errors, %d rejected at once, %d quarantined, %d write errors\n",
       s.uptime_s(), s.requests(), s.failed(), s.queued(), s.tensors(),
       s.tensor_bytes(), s.received_bytes(), s.sent_bytes(),
       cache.loaded_hits(), cache.memory_hits(), cache.disk_hits(),
       cache.compiles(), cache.compile_errors(), cache.rejected_at_once(),
       cache.quarantined(), cache.write_errors());
  for (const v1::TierStatistics& tier : cache.tiers()) {
    Show(
        stdout,
        "cache tier %s: %d hits, %d misses, %d errors; loaded %d bytes, stored "
        "%d bytes; loads took %d us\n",
        tier.name(), tier.hits(), tier.misses(), tier.errors(),
        tier.bytes_loaded(), tier.bytes_stored(), tier.load_us());
  }
}

int Info(client::Client& client, bool json) {
  GEMMCTL_ASSIGN(const v1::ServerInfo info, client.GetServerInfo(), Fail);
  json ? PrintJson(info) : Print(info);
  return cli::kExitOk;
}

int Stats(client::Client& client, bool json) {
  GEMMCTL_ASSIGN(const v1::Statistics statistics, client.GetStatistics(), Fail);
  json ? PrintJson(statistics) : Print(statistics);
  return cli::kExitOk;
}

int Health(client::Client& client, bool json) {
  const absl::Status health = client.CheckHealth();
  if (json) Show(stdout, "{\"serving\": %s}\n", health.ok() ? "true" : "false");
  if (!health.ok()) return Fail(health);
  if (!json) Show(stdout, "SERVING\n");
  return cli::kExitOk;
}

void Add(cli::Command& program, const std::string& name,
         const std::string& summary, int (*run)(client::Client&, bool json)) {
  cli::Command& command = program.Subcommand(name, summary);
  const auto json = std::make_shared<bool>(false);
  command.Switch("--json", *json, "Print JSON.");
  RunWithClient(
      command,
      [json, run](client::Client& client) { return run(client, *json); },
      kTimeout);
}

}  // namespace

void AddServer(cli::Command& program) {
  Add(program, "info", "version, devices, compiler and limits", Info);
  Add(program, "stats", "counters of requests, tensors and the cache", Stats);
  Add(program, "health", "exit code 0 when the daemon serves, else 1", Health);
}

}  // namespace gemmd::gemmctl
