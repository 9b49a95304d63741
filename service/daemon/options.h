// What the daemon's command line and configuration file set. A plain struct;
// main.cc reads it once.
#ifndef GEMMD_SERVICE_DAEMON_OPTIONS_H_
#define GEMMD_SERVICE_DAEMON_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "clients/cli/command_line.h"
#include "clients/warmup/presets.h"
#include "jit/cache/kernel_cache.h"
#include "jit/cache/quota.h"
#include "service/engine/engine.h"
#include "service/host/host_device.h"
#include "service/monitor/monitor.h"
#include "service/rpc/server.h"

namespace gemmd::daemon {

// None where threads that spin would take the cores of those that work.
absl::Duration DefaultSpin();

struct Options {
  Options();

  std::string device = "auto";
  std::string host_arithmetic = "hopper";
  std::string host_model = "h100";
  bool no_legacy_ipc = false;
  absl::Duration spin = DefaultSpin();
  std::string port_file;
  std::string log_format = "text";
  std::string record_problems;
  std::vector<std::string> presets;
  int64_t preset_tokens = warmup::kPresetTokens;
  std::string template_dir;
  std::string nvrtc;
  std::string redis;
  std::string redis_password_file;
  std::string redis_ca_file;
  bool redis_allow_unsigned = false;
  int64_t cache_limit_bytes = jit::kDefaultLimitBytes;
  std::string signing_key_file;
  // Options of the parts, whose defaults are those of the command line. What
  // only main.cc knows (devices, callbacks, facts) is not yet in them.
  rpc::Server::Options server;
  // Short is a quarter of a millisecond.
  engine::Engine::Options engine = {.executor = {.short_cycles = 425'000}};
  jit::KernelCache::Options cache;
  monitor::Monitor::Options monitor;
};

// Declares each option once: name, variable with its default, range, help.
void Declare(cli::Command& command, Options& options);

// What no single option can tell. INVALID_ARGUMENT names the options.
absl::Status Check(const Options& options);

// What the host device is told, where there is one.
host::HostDeviceOptions HostOptions(const Options& options);

}  // namespace gemmd::daemon

#endif  // GEMMD_SERVICE_DAEMON_OPTIONS_H_
