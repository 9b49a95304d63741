// gemmd: multiplies matrices for clients on the GPUs of this machine.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "jit/base/status.h"
#include "jit/cache/kernel_cache.h"
#include "jit/compile/compile_worker.h"
#include "jit/compile/nvrtc_compiler.h"
#include "jit/source/template_library.h"
#include "service/daemon/cache_options.h"
#include "service/daemon/devices.h"
#include "service/daemon/drain_limit.h"
#include "service/daemon/port_file.h"
#include "service/daemon/problem_log.h"
#include "service/daemon/stop_signal.h"
#include "service/engine/engine.h"
#include "service/log/log.h"
#include "service/rpc/server.h"

ABSL_FLAG(std::vector<std::string>, listen, {"127.0.0.1:50051"},
          "Addresses to listen on, separated by commas: \"127.0.0.1:0\" (any "
          "free port), \"[::1]:50051\", \"unix:/path\".");
ABSL_FLAG(bool, allow_plaintext_nonloopback, false,
          "Listen also on addresses that other machines can reach, without "
          "encryption and without authentication.");
ABSL_FLAG(std::string, port_file, "",
          "File to which the bound addresses are written, one a line, once "
          "the daemon serves; empty: none.");
ABSL_FLAG(std::string, device, "auto",
          "auto: every GPU of compute capability 9.0, or the host where there "
          "is none; cuda: GPUs or nothing; host: the CPU.");
ABSL_FLAG(std::string, cache_dir, "",
          "Directory of compiled kernels; empty: gemmd in $XDG_CACHE_HOME or "
          "~/.cache.");
ABSL_FLAG(std::string, record_problems, "",
          "File to which each new shape of a product is added, as gemm-warmup "
          "reads it; empty: none.");
ABSL_FLAG(std::string, template_dir, "",
          "Directory of device templates in place of those built in; for "
          "kernel authors.");
ABSL_FLAG(std::string, nvrtc, "",
          "File or folder of libnvrtc; empty: where the dynamic loader and "
          "the usual folders have it.");
ABSL_FLAG(int32_t, lanes, 2,
          "Requests that each device works on at a time (1 to 16).");
ABSL_FLAG(int32_t, queue, 256,
          "Requests that may wait for each device (1 to 65536); more are "
          "refused with RESOURCE_EXHAUSTED.");
ABSL_FLAG(int32_t, compile_threads, 4,
          "Threads that plan, compile and load kernels (1 to 64).");
ABSL_FLAG(int32_t, max_kernels, 1024,
          "Kernels loaded on each device at a time (16 to 65536); the one that "
          "was used least recently makes room for another.");
ABSL_FLAG(int32_t, network_threads, 2, "Threads that move messages (1 to 64).");
ABSL_FLAG(int64_t, max_message_bytes, int64_t{1} << 30,
          "Largest request or response (65536 to 2147483647).");
ABSL_FLAG(int64_t, max_inflight_bytes, int64_t{4} << 30,
          "Bytes of received requests that are held at a time, at least "
          "--max_message_bytes; beyond it requests are refused with "
          "RESOURCE_EXHAUSTED.");
ABSL_FLAG(int64_t, max_tensor_bytes, 0,
          "Device bytes of all resident tensors together; 0: three quarters "
          "of the devices' memory.");
ABSL_FLAG(int64_t, tensor_ttl_s, 3600,
          "Seconds without use after which a tensor is deleted, unless its "
          "creator said otherwise (at least 1).");
ABSL_FLAG(int64_t, drain_grace_ms, 0,
          "After SIGTERM, milliseconds during which the daemon reports "
          "NOT_SERVING but still serves, so that balancers notice.");
ABSL_FLAG(int64_t, drain_timeout_ms, 30000,
          "After the grace period, milliseconds until calls that still run "
          "are cancelled and compiles killed. What has not stopped 2 seconds "
          "later is given up, and the exit code is 3.");

namespace gemmd {
namespace {

template <typename T>
absl::StatusOr<T> InRange(const absl::Flag<T>& flag, absl::string_view name,
                          T least, T most) {
  const T value = absl::GetFlag(flag);
  if (value >= least && value <= most) return value;
  return absl::InvalidArgumentError(absl::StrCat(
      "--", name, " is ", value, "; allowed: ", least, " to ", most));
}

// Exit codes, besides 0 for a drain that ended by itself.
constexpr int kFailed = 1;
constexpr int kBadFlag = 2;
constexpr int kGivenUp = 3;
// After the drain, for what it has cancelled and for devices to be closed.
constexpr absl::Duration kStopTime = absl::Seconds(2);

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

absl::Status SetLimits(rpc::Server::Options& server,
                       engine::Engine::Options& engine) {
  const auto& message = FLAGS_max_message_bytes;
  ASSIGN_OR_RETURN(engine.executor.lanes, InRange(FLAGS_lanes, "lanes", 1, 16));
  ASSIGN_OR_RETURN(engine.executor.max_queue,
                   InRange(FLAGS_queue, "queue", 1, 65536));
  ASSIGN_OR_RETURN(engine.prepare_threads,
                   InRange(FLAGS_compile_threads, "compile_threads", 1, 64));
  ASSIGN_OR_RETURN(engine.kernels.max_kernels,
                   InRange(FLAGS_max_kernels, "max_kernels", 16, 65536));
  ASSIGN_OR_RETURN(server.loops,
                   InRange(FLAGS_network_threads, "network_threads", 1, 64));
  ASSIGN_OR_RETURN(server.limits.max_message_bytes,
                   InRange<int64_t>(message, "max_message_bytes", 65536,
                                    std::numeric_limits<int32_t>::max()));
  ASSIGN_OR_RETURN(
      server.limits.max_in_flight_bytes,
      InRange<int64_t>(FLAGS_max_inflight_bytes, "max_inflight_bytes",
                       server.limits.max_message_bytes, kUnlimited));
  ASSIGN_OR_RETURN(engine.tensors.max_bytes,
                   InRange<int64_t>(FLAGS_max_tensor_bytes, "max_tensor_bytes",
                                    0, kUnlimited));
  ASSIGN_OR_RETURN(const int64_t ttl_s,
                   InRange<int64_t>(FLAGS_tensor_ttl_s, "tensor_ttl_s", 1,
                                    int64_t{10} * 366 * 86400));
  ASSIGN_OR_RETURN(
      const int64_t grace_ms,
      InRange<int64_t>(FLAGS_drain_grace_ms, "drain_grace_ms", 0, 3600 * 1000));
  ASSIGN_OR_RETURN(const int64_t timeout_ms,
                   InRange<int64_t>(FLAGS_drain_timeout_ms, "drain_timeout_ms",
                                    0, 3600 * 1000));
  server.limits.tensor_ttl = absl::Seconds(ttl_s);
  server.limits.max_queue = engine.executor.max_queue;
  server.drain_grace = absl::Milliseconds(grace_ms);
  server.drain_timeout = absl::Milliseconds(timeout_ms);
  return absl::OkStatus();
}

// Empty when there is no home: then kernels are kept in memory alone.
std::string CacheDirectory() {
  const std::string flag = absl::GetFlag(FLAGS_cache_dir);
  if (!flag.empty()) return flag;
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && *xdg != '\0') return absl::StrCat(xdg, "/gemmd");
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') {
    return absl::StrCat(home, "/.cache/gemmd");
  }
  return "";
}

absl::StatusOr<jit::TemplateLibrary> Templates() {
  const std::string directory = absl::GetFlag(FLAGS_template_dir);
  if (directory.empty()) return jit::TemplateLibrary::Embedded();
  return jit::TemplateLibrary::FromDirectory(directory);
}

// A client's connection is a file: running out of them ends the listener.
void RaiseFileLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void LogMissing(rpc::ServerFacts& facts, std::string sentence) {
  log::Write(log::Level::kWarning, "ability_missing", {{"message", sentence}});
  facts.missing.push_back(std::move(sentence));
}

// Opens NVRTC, or records that it is absent and returns null.
std::unique_ptr<jit::Compiler> OpenCompiler(rpc::ServerFacts& facts) {
  auto compiler =
      jit::CreateNvrtcCompiler({.nvrtc_path = absl::GetFlag(FLAGS_nvrtc),
                                .worker_program = "/proc/self/exe"});
  if (!compiler.ok()) {
    log::Write(log::Level::kWarning, "no_nvrtc",
               {{"message", compiler.status().message()}});
    LogMissing(facts,
               "Kernels that are not in the cache cannot be compiled, because "
               "NVRTC was not found.");
    facts.compiler = [] { return std::string("absent"); };
    return nullptr;
  }
  facts.can_compile = true;
  facts.compiler = [compiler = compiler->get()] {
    return compiler->identity();
  };
  return *std::move(compiler);
}

absl::Status Run() {
  daemon::DrainLimit drain_limit;  // First: all else ends within it.
  rpc::Server::Options server_options;
  engine::Engine::Options engine_options;
  RETURN_IF_ERROR(SetLimits(server_options, engine_options));
  const absl::Duration drain_time =
      server_options.drain_grace + server_options.drain_timeout;
  rpc::ServerFacts& facts = server_options.facts;
  facts.version = GEMMD_VERSION;

  ASSIGN_OR_RETURN(const jit::TemplateLibrary templates, Templates());
  facts.template_digest = templates.Digest();
  ASSIGN_OR_RETURN(daemon::Devices devices,
                   daemon::OpenDevices(absl::GetFlag(FLAGS_device)));
  if (!devices.missing.empty()) LogMissing(facts, devices.missing);
  int64_t memory_bytes = 0;
  for (const auto& device : devices.devices) {
    const device::Description& description = device->description();
    memory_bytes += description.memory_bytes;
    log::Write(log::Level::kInfo, "device",
               {{"name", description.name},
                {"product", description.product},
                {"memory_bytes", description.memory_bytes}});
  }
  if (engine_options.tensors.max_bytes == 0) {
    engine_options.tensors.max_bytes = memory_bytes / 4 * 3;
  }
  server_options.limits.max_tensor_bytes = engine_options.tensors.max_bytes;

  std::unique_ptr<daemon::ProblemLog> problem_log;  // May be null.
  const std::string problem_file = absl::GetFlag(FLAGS_record_problems);
  if (!problem_file.empty()) {
    ASSIGN_OR_RETURN(problem_log, daemon::ProblemLog::Open(problem_file));
    engine_options.kernels.new_shape =
        [log = problem_log.get()](const jit::Problem& problem) {
          log->Note(problem);
        };
  }

  const std::string cache_directory = CacheDirectory();
  if (cache_directory.empty()) {
    LogMissing(facts,
               "Compiled kernels are lost when the daemon ends: there "
               "is no cache directory.");
  }
  ASSIGN_OR_RETURN(jit::KernelCache::Options cache_options,
                   daemon::CacheOptions(cache_directory));
  const auto cache =
      jit::KernelCache::Create(std::move(cache_options), OpenCompiler(facts));
  ASSIGN_OR_RETURN(
      const auto engine,
      engine::Engine::Create(engine_options, std::move(devices.devices), *cache,
                             templates));

  server_options.listen = absl::GetFlag(FLAGS_listen);
  server_options.allow_plaintext_nonloopback =
      absl::GetFlag(FLAGS_allow_plaintext_nonloopback);
  std::atomic<bool> device_lost = false;
  server_options.on_devices_lost = [&device_lost] {
    device_lost = true;
    kill(getpid(), SIGTERM);
  };
  ASSIGN_OR_RETURN(const auto server,
                   rpc::Server::Start(std::move(server_options), *engine));
  const std::string port_file = absl::GetFlag(FLAGS_port_file);
  if (!port_file.empty()) {
    RETURN_IF_ERROR(daemon::WritePortFile(port_file, server->addresses()));
  }
  log::Write(log::Level::kInfo, "serving",
             {{"version", GEMMD_VERSION},
              {"addresses", absl::StrJoin(server->addresses(), ",")},
              {"cache", cache_directory}});

  const int signal = daemon::WaitForStopSignal();
  log::Write(log::Level::kInfo, "draining", {{"signal", signal}});
  const int given_up = device_lost ? kFailed : kGivenUp;
  drain_limit.Start(drain_time + kStopTime, given_up);
  // What hangs in a device keeps it: nothing can be destroyed then.
  if (!server->Drain()) _exit(given_up);
  if (device_lost) {
    return absl::UnavailableError("every device failed its probes; see above");
  }
  log::Write(log::Level::kInfo, "stopped");
  return absl::OkStatus();
}

}  // namespace
}  // namespace gemmd

int main(int argc, char** argv) {
  // Compiles run in processes of this program.
  if (auto code = gemmd::jit::RunIfCompileWorker(argc, argv)) return *code;
  absl::SetProgramUsageMessage(
      "multiplies matrices for clients over gRPC.\n"
      "Flags: gemmd --helpfull");
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  if (rest.size() > 1) {
    std::fprintf(stderr, "gemmd: unexpected argument \"%s\"\n", rest[1]);
    return 2;
  }
  gemmd::daemon::CatchStopSignals();
  gemmd::log::Initialize();
  gemmd::RaiseFileLimit();
  const absl::Status status = gemmd::Run();
  if (status.ok()) return 0;
  gemmd::log::Write(gemmd::log::Level::kError, "failed",
                    {{"code", absl::StatusCodeToString(status.code())},
                     {"message", status.message()}});
  return absl::IsInvalidArgument(status) ? gemmd::kBadFlag : gemmd::kFailed;
}
