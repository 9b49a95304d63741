// gemmd: multiplies matrices for clients on the GPUs of this machine.
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "clients/cli/command_line.h"
#include "jit/base/of_option.h"
#include "jit/base/status.h"
#include "jit/cache/kernel_cache.h"
#include "jit/cache/tuning_table.h"
#include "jit/compile/compile_worker.h"
#include "jit/compile/confine.h"
#include "jit/compile/nvrtc_compiler.h"
#include "jit/source/template_library.h"
#include "service/daemon/cache_options.h"
#include "service/daemon/devices.h"
#include "service/daemon/drain_limit.h"
#include "service/daemon/options.h"
#include "service/daemon/port_file.h"
#include "service/daemon/preset_check.h"
#include "service/daemon/problem_log.h"
#include "service/daemon/process_setup.h"
#include "service/daemon/stop_signal.h"
#include "service/engine/engine.h"
#include "service/log/log.h"
#include "service/models/store.h"
#include "service/monitor/monitor.h"
#include "service/rpc/library_logs.h"
#include "service/rpc/server.h"

namespace gemmd {
namespace {

// The exit code, besides those of every program, when a drain left work undone.
constexpr int kGivenUp = 3;
// After the drain, for what it has cancelled and for devices to be closed.
constexpr absl::Duration kStopTime = absl::Seconds(2);

absl::StatusOr<jit::TemplateLibrary> Templates(const std::string& directory) {
  if (directory.empty()) return jit::TemplateLibrary::Embedded();
  auto templates = jit::TemplateLibrary::FromDirectory(directory);
  if (templates.ok()) return templates;
  return jit::OfOption("--template-dir", directory,
                       templates.status().message());
}

// A client's connection is a file, and so is what threads wake each other by:
// the daemon cannot start without some.
absl::Status RaiseFileLimit() {
  constexpr rlim_t kLeastFiles = 64;
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::OkStatus();
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max >= kLeastFiles) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the process may open ", limit.rlim_max,
                   " files (ulimit -n); allowed: ", kLeastFiles, " or more"));
}

// Where a process may have less (ulimit -s), its threads have enough all the
// same, and the main one as much as it may have: with 64 KiB a daemon that had
// NVRTC ended by SIGSEGV at its start.
void RaiseStackLimit() {
  constexpr size_t kLeastBytes = 2 << 20;
  rlimit limit;
  if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < kLeastBytes) {
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, kLeastBytes);
    setrlimit(RLIMIT_STACK, &limit);
  }
  pthread_attr_t attributes;
  size_t bytes = 0;
  if (pthread_getattr_default_np(&attributes) != 0) return;
  pthread_attr_getstacksize(&attributes, &bytes);
  if (bytes < kLeastBytes) {
    pthread_attr_setstacksize(&attributes, kLeastBytes);
    pthread_setattr_default_np(&attributes);
  }
  pthread_attr_destroy(&attributes);
}

// More than it starts with on one device. Not all libraries notice a thread
// that they did not get: gRPC waits for its own for ever.
absl::Status CheckThreads(const daemon::Options& options) {
  const int64_t least = 48 + models::kCopyingThreads +
                        2 * std::min(std::thread::hardware_concurrency(), 16U) +
                        2 * options.engine.executor.lanes +
                        options.engine.preparer.compile_threads +
                        options.server.loops;
  absl::Notification done;
  absl::Status status;
  std::vector<std::jthread> threads;
  try {
    while (std::ssize(threads) < least) {
      threads.emplace_back([&done] { done.WaitForNotification(); });
    }
  } catch (const std::system_error&) {
    status = absl::ResourceExhaustedError(absl::StrCat(
        "the process may start ", threads.size(),
        " threads (ulimit -u and -v, and what the container may have); "
        "allowed: ",
        least, " or more"));
  }
  done.Notify();
  return status;
}

void LogMissing(rpc::ServerFacts& facts, std::string sentence) {
  log::Write(log::Level::kWarning, "ability_missing", {{"message", sentence}});
  facts.missing.push_back(std::move(sentence));
}

// Opens NVRTC, or records that it is absent and returns null. A path that was
// given and does not lead to it is an error.
absl::StatusOr<std::unique_ptr<jit::Compiler>> OpenCompiler(
    const std::string& path, const std::string& cache_directory,
    rpc::ServerFacts& facts) {
  absl::StatusOr<std::unique_ptr<jit::Compiler>> compiler =
      absl::NotFoundError("--nvrtc=none");
  if (path != "none") {
    compiler = jit::CreateNvrtcCompiler({.nvrtc_path = path,
                                         .worker_program = "/proc/self/exe",
                                         .memory = cache_directory});
    if (!compiler.ok() && !path.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--nvrtc is ", path, ": ", compiler.status().message(),
                       " --nvrtc=none serves without a compiler."));
    }
  }
  if (!compiler.ok()) {
    log::Write(log::Level::kWarning, "no_nvrtc",
               {{"message", compiler.status().message()}});
    LogMissing(facts,
               "Kernels that are not in the cache cannot be compiled, because "
               "NVRTC was not found.");
    facts.compiler = [] { return std::string("absent"); };
    return nullptr;
  }
  if (const std::string missing = jit::MissingConfinement(); !missing.empty()) {
    log::Write(log::Level::kWarning, "confinement", {{"message", missing}});
  }
  facts.can_compile = true;
  facts.compiler = [compiler = compiler->get()] {
    return compiler->identity();
  };
  return *std::move(compiler);
}

absl::Status Serve(daemon::Options& options) {
  daemon::DrainLimit drain_limit;  // First: all else ends within it.
  rpc::Server::Options& server_options = options.server;
  engine::Engine::Options& engine_options = options.engine;
  server_options.spin = engine_options.executor.spin = options.spin;
  const absl::Duration drain_time =
      server_options.drain_grace + server_options.drain_timeout;
  rpc::ServerFacts& facts = server_options.facts;
  facts.version = GEMMD_VERSION;

  ASSIGN_OR_RETURN(const jit::TemplateLibrary templates,
                   Templates(options.template_dir));
  facts.template_digest = templates.Digest();
  ASSIGN_OR_RETURN(daemon::Devices devices,
                   daemon::OpenDevices(options.device,
                                       {.imports_ipc = !options.no_legacy_ipc},
                                       daemon::HostOptions(options)));
  if (!devices.missing.empty()) LogMissing(facts, devices.missing);
  for (const auto& device : devices.devices) {
    const device::Description& description = device->description();
    log::Write(log::Level::kInfo, "device",
               {{"name", description.name},
                {"product", description.product},
                {"memory_bytes", description.memory_bytes}});
  }
  server_options.limits.max_queue = engine_options.executor.max_queue;

  std::unique_ptr<daemon::ProblemLog> problem_log;  // May be null.
  if (!options.record_problems.empty()) {
    ASSIGN_OR_RETURN(problem_log,
                     daemon::ProblemLog::Open(options.record_problems));
    engine_options.kernels.new_shape =
        [log = problem_log.get()](const jit::Problem& problem) {
          log->Note(problem);
        };
    engine_options.kernels.new_group = [log = problem_log.get()](
                                           absl::Span<const jit::Problem> group,
                                           const std::string& kernel) {
      log->Note(group, kernel);
    };
  }

  engine_options.kernels.refused = [](const std::string& kernel,
                                      const absl::Status& why) {
    log::Write(log::Level::kWarning, "kernel_refused",
               {{"kernel", kernel}, {"message", why.message()}});
  };

  engine_options.tuner.gave_up = [](const jit::Problem& problem,
                                    const absl::Status& why) {
    log::Write(
        log::Level::kInfo, "not_tuned",
        {{"problem", jit::DebugString(problem)}, {"message", why.message()}});
  };

  if (options.cache.directory.empty()) {
    LogMissing(facts,
               "Compiled kernels are lost when the daemon ends: there "
               "is no cache directory.");
  }
  ASSIGN_OR_RETURN(jit::KernelCache::Options cache_options,
                   daemon::CacheOptions(options));
  ASSIGN_OR_RETURN(std::unique_ptr<jit::Compiler> compiler,
                   OpenCompiler(options.nvrtc, options.cache.directory, facts));
  const bool compiles = compiler != nullptr && !cache_options.require_complete;
  const auto warn = cache_options.warn;
  const auto cache =
      jit::KernelCache::Create(std::move(cache_options), std::move(compiler));
  if (options.cache.require_complete && options.redis.empty() &&
      cache->List("", 1).empty()) {
    LogMissing(facts,
               "No kernel can run: --require-complete compiles none, and the "
               "cache is empty.");
  }
  jit::TuningTable tuning({.directory = options.cache.directory,
                           .layers = options.cache.layers,
                           .warn = warn},
                          templates.Digest());
  engine_options.tuning = &tuning;
  ASSIGN_OR_RETURN(
      const auto engine,
      engine::Engine::Create(engine_options, std::move(devices.devices), *cache,
                             templates));

  std::optional<daemon::PresetCheck> preset_check;
  if (!options.presets.empty()) {
    daemon::PresetCheck::Options check = {.presets = options.presets,
                                          .tokens = options.preset_tokens};
    for (int i = 0; i < engine->device_count(); ++i) {
      check.devices.push_back(engine->device(i).description().properties);
    }
    if (compiles) check.compiler = facts.compiler;
    preset_check.emplace(std::move(check), templates, *cache);
  }

  server_options.limits.max_tensor_bytes = engine->tensors().max_bytes();
  std::atomic<bool> device_lost = false;
  server_options.on_devices_lost = [&device_lost] {
    device_lost = true;
    kill(getpid(), SIGTERM);
  };
  const bool plaintext_nonloopback = server_options.allow_plaintext_nonloopback;
  // Models that are there already have kernels compiled. Restore asks no more
  // once it is to stop.
  server_options.models.stops = [&drain_limit, &cache] {
    if (!daemon::StopIsAsked()) return false;
    cache->GiveUp();
    drain_limit.Start(kStopTime, kGivenUp);
    return true;
  };
  auto started = rpc::Server::Start(std::move(server_options), *engine);
  if (absl::IsCancelled(started.status())) {  // Nobody was served yet.
    log::Write(log::Level::kInfo, "stopped");
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const auto server, std::move(started));
  std::unique_ptr<monitor::Monitor> monitor;  // May be null.
  if (!options.monitor.listen.empty()) {
    options.monitor.allow_nonloopback = plaintext_nonloopback;
    ASSIGN_OR_RETURN(
        monitor, monitor::Monitor::Start(options.monitor, *server, *engine));
    log::Write(log::Level::kInfo, "monitoring",
               {{"address", monitor->address()}});
  }
  if (!options.port_file.empty()) {
    RETURN_IF_ERROR(
        daemon::WritePortFile(options.port_file, server->addresses()));
  }
  log::Write(log::Level::kInfo, "serving",
             {{"version", GEMMD_VERSION},
              {"addresses", absl::StrJoin(server->addresses(), ",")},
              {"cache", options.cache.directory}});

  const int signal = daemon::WaitForStopSignal();
  log::Write(log::Level::kInfo, "draining", {{"signal", signal}});
  const int given_up = device_lost ? cli::kExitFailed : kGivenUp;
  drain_limit.Start(drain_time + kStopTime, given_up);
  // What hangs in a device keeps it: nothing can be destroyed then.
  if (!server->Drain()) daemon::EndProcess(given_up);
  if (device_lost) {
    return absl::UnavailableError("every device failed its probes; see above");
  }
  log::Write(log::Level::kInfo, "stopped");
  return absl::OkStatus();
}

absl::StatusOr<int> Run(daemon::Options& options) {
  RETURN_IF_ERROR(daemon::Check(options));
  daemon::CatchStopSignals();
  log::Initialize(options.log_format == "json" ? log::Style::kJson
                                               : log::Style::kText);
  rpc::RedirectLibraryLogs();
  RaiseStackLimit();
  absl::Status status = RaiseFileLimit();
  if (status.ok()) status = CheckThreads(options);
  if (status.ok()) status = Serve(options);
  if (!status.ok()) {
    log::Write(log::Level::kError, "failed",
               {{"code", absl::StatusCodeToString(status.code())},
                {"message", status.message()}});
  }
  log::Flush(daemon::kLastLinesTime);
  if (status.ok()) return cli::kExitOk;
  return absl::IsInvalidArgument(status) ? cli::kExitUsage : cli::kExitFailed;
}

int Main(int argc, char** argv) {
  daemon::Options options;
  cli::Program program("gemmd", "multiplies matrices for clients over gRPC");
  program.ConfigFile();
  daemon::Declare(program, options);
  program.Run([&options] { return Run(options); });
  return program.Main(argc, argv);
}

}  // namespace
}  // namespace gemmd

int main(int argc, char** argv) {
  gemmd::daemon::SecureProcess();
  // Compiles run in processes of this program.
  if (auto code = gemmd::jit::RunIfCompileWorker(argc, argv)) return *code;
  return gemmd::Main(argc, argv);
}
