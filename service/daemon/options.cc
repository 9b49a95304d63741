#include "service/daemon/options.h"

#include <cstdlib>
#include <limits>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "clients/cli/address.h"
#include "clients/cli/quantity.h"
#include "jit/base/status.h"
#include "service/host/model.h"
#include "service/rpc/rota.h"

namespace gemmd::daemon {
namespace {

constexpr absl::Duration kMs = absl::Milliseconds(1);
constexpr absl::Duration kSecond = absl::Seconds(1);

// Empty when there is no home: then kernels are kept in memory alone. Relative
// paths are passed over: they would lead to wherever the daemon was started.
std::string DefaultCacheDirectory() {
  const char* const xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && *xdg == '/') return absl::StrCat(xdg, "/gemmd");
  const char* const home = std::getenv("HOME");
  if (home != nullptr && *home == '/') {
    return absl::StrCat(home, "/.cache/gemmd");
  }
  return "";
}

void DeclareNetwork(cli::Command& c, Options& o) {
  c.Heading("Network");
  c.List("--listen ADDRESSES", o.server.listen,
         "Addresses to listen on, separated by commas: 127.0.0.1:0 (any free "
         "port), [::1]:50051, unix:/path, where the path's folder decides who "
         "may connect.");
  c.Switch("--allow-plaintext-nonloopback",
           o.server.allow_plaintext_nonloopback,
           "Listen without TLS also on addresses that other machines can "
           "reach.");
  c.File("--tls-certificate-file FILE", o.server.tls.certificate,
         "The daemon's certificate and those between it and an authority, in "
         "PEM: TCP addresses speak TLS alone. Looked at again every second, as "
         "the next two are.");
  c.File("--tls-key-file FILE", o.server.tls.key, "Its key, in PEM.");
  c.File("--tls-client-ca-file FILE", o.server.tls.client_ca,
         "Authorities, in PEM, whose certificates clients may show to say who "
         "they are. Needs --policy-file.");
  c.File("--policy-file FILE", o.server.identity.policy,
         "Who may do what, as JSON of proto/gemmd/v1/policy.proto. With it, "
         "every call but those for health has to prove who makes it. Looked at "
         "again every second.");
  c.File("--token-digest-file FILE", o.server.identity.token_digests,
         "Lines of a principal, the SHA-256 of a token of his, and when that "
         "ends: who sends the token is the principal. Looked at again every "
         "second.");
  c.File("--port-file FILE", o.port_file,
         "File to which the bound addresses are written, one a line, once the "
         "daemon serves.");
  c.Choice("--log-format FORMAT", o.log_format, {"text", "json"},
           "Of the lines on standard error: key=value, or a JSON object each.");
  c.Text("--metrics-listen ADDRESS", o.monitor.listen,
         "Address at which Prometheus may read metrics, over HTTP at /metrics. "
         "Without it, there are none.");
  c.Switch("--status-page", o.monitor.status_page,
           "Show a page for people at --metrics-listen too: devices, hot "
           "shapes, recent errors. Clients' problems and the texts of their "
           "errors are on it.");
  c.Int("--network-threads N", o.server.loops, {0, rpc::Rota::kMostLoops},
        "Threads that move messages, at most; few calls at a time need fewer. "
        "0: one for two cores, 2 to 8.");
  c.Duration(
      "--spin TIME", o.spin, {absl::ZeroDuration(), absl::Milliseconds(10)},
      "How long a thread that waits for a product's end, or a lane that "
      "waits for the next one, looks for it before it sleeps, from which "
      "to wake it takes 15 to 25 us; not by default below 8 cores.");
  c.Duration("--drain-grace TIME", o.server.drain_grace,
             {absl::ZeroDuration(), absl::Hours(1)},
             "After SIGTERM the daemon reports NOT_SERVING but serves on for "
             "so long, so that balancers notice.");
  c.Duration("--drain-timeout TIME", o.server.drain_timeout,
             {absl::ZeroDuration(), absl::Hours(1)},
             "Calls that still run so long after the grace period are "
             "cancelled and compiles killed. What has not stopped 2 seconds "
             "later is given up, and the exit code is 3.");
  c.Duration("--probe-timeout TIME", o.server.probe_timeout,
             {absl::Milliseconds(100), absl::Hours(1)},
             "A device that does not answer its probe for so long has failed.");
}

void DeclareLimits(cli::Command& c, rpc::Limits& limits, bool& no_legacy_ipc) {
  const absl::Duration never = absl::InfiniteDuration();
  c.Heading("Limits of clients");
  c.Bytes("--max-message-bytes BYTES", limits.max_message_bytes,
          {1 << 20, std::numeric_limits<int32_t>::max()},
          "Largest request or response. Clients send larger matrices of a "
          "product, or of a tensor, in parts that have room.");
  c.Bytes("--max-inflight-bytes BYTES", limits.max_in_flight_bytes, {65536},
          "Bytes of requests that are held at a time, and as many of "
          "responses, at least --max-message-bytes; beyond it calls wait. One "
          "connection gets half of it.");
  c.Duration("--max-wait TIME", limits.max_wait, {kMs, never},
             "How long a call waits for room before it gets "
             "RESOURCE_EXHAUSTED.");
  c.Bytes("--region-bytes BYTES", limits.max_region_bytes, {0},
          "Memory that clients on Unix sockets share with the daemon, pinned "
          "where there is a GPU; one gets three quarters of it. 0: none.");
  c.Switch("--no-legacy-ipc", no_legacy_ipc,
           "Clients share memory of a GPU by descriptors alone, not by handles "
           "of legacy IPC, which torch's and cupy's memory has: those the "
           "driver alone judges.");
  c.Int("--max-connections N", limits.max_connections, {1, 24000},
        "Connections at a time, and at most 3 of 8 file descriptors; beyond "
        "it the one that idles for longest is closed.");
  c.Int("--max-calls N", limits.max_calls, {16, 1 << 20},
        "Calls at a time, shared by the connections.");
  c.Int("--max-calls-per-connection N", limits.max_calls_per_connection,
        {1, 65536}, "Calls at a time of one connection.");
  c.Duration("--stall-timeout TIME", limits.stall_timeout, {kMs, never},
             "A call is ended when less than 64 KiB of what it waits for come "
             "or go in so long, or less than 1 MiB for each second beyond.");
  c.Duration("--pressed-stall-timeout TIME", limits.pressed_stall_timeout,
             {kMs, never},
             "The same while others wait for what such calls hold.");
  c.Duration("--max-call-time TIME", limits.max_call_time, {kMs, never},
             "A call without a deadline is ended after so long.");
  c.Duration("--connection-idle TIME", limits.connection_idle, {kSecond, never},
             "A connection without calls is asked to come again after so "
             "long.");
  c.Duration("--connection-age TIME", limits.connection_age, {kSecond, never},
             "Any connection is asked to come again after so long.");
  c.Duration("--keepalive-time TIME", limits.keepalive_time, {kSecond, never},
             "A silent connection is asked whether it is alive after so "
             "long.");
  c.Duration("--keepalive-timeout TIME", limits.keepalive_timeout, {kMs, never},
             "A connection that does not answer for so long is closed.");
}

void DeclareProducts(cli::Command& c, Options& o) {
  c.Heading("Products and tensors");
  c.Choice("--device KIND", o.device, {"auto", "cuda", "host"},
           "auto: every GPU of compute capability 9.0, or the host where "
           "there is none; cuda: GPUs or nothing; host: the CPU.");
  c.Choice("--host-arithmetic KIND", o.host_arithmetic, {"hopper", "double"},
           "Sums of floating types on the host. hopper: the bits that a Hopper "
           "GPU gives, where its arithmetic is known, else as double; double: "
           "sums in f64, rounded once, which is faster.");
  c.Choice("--host-model GPU", o.host_model, {"h100", "h200"},
           "The GPU (SXM) that kernels are planned for on the host, and whose "
           "parts of k its sums have.");
  c.Int("--lanes N", o.engine.executor.lanes, {1, 16},
        "Products that each device works on at a time, besides one that is "
        "predicted to be short, and as many transfers of tensors.");
  c.Int("--queue N", o.engine.executor.max_queue, {1, 65536},
        "Products that may wait for each device, and as many transfers of "
        "tensors. Beyond it, who has most of them waiting is refused with "
        "RESOURCE_EXHAUSTED.");
  c.Duration("--hang-limit TIME", o.engine.executor.hang_limit,
             {kSecond, absl::Hours(24)},
             "A GPU that works so long on one request has failed: its requests "
             "get UNAVAILABLE, and it gets no more of them.");
  c.Duration(
      "--max-work TIME", o.engine.executor.max_work,
      {absl::ZeroDuration(), absl::Hours(24)},
      "What one call may be predicted to keep a device from others, on a "
      "GPU never more than a share of --hang-limit by which nothing that "
      "is allowed looks like a failure (half of it for one lane, a "
      "quarter for two); more is refused with RESOURCE_EXHAUSTED. 0: 2s "
      "of a GPU, 1m of the host.");
  c.Int("--max-kernels N", o.engine.kernels.max_kernels, {16, 65536},
        "Kernels loaded on each device at a time; the one that was used least "
        "recently makes room for another.");
  c.Int("--tune-share PERCENT", o.engine.tuner.share_percent, {0, 50},
        "Most of the time of each GPU that is spent on timing kernels for "
        "the products it is asked for most, in turn with them; 0: none.");
  c.Switch("--admin-calls", o.server.limits.admin_calls,
           "Let every client evict and tune kernels and list all tensors. "
           "Without it, clients do neither and are listed what they created "
           "themselves.");
  c.Bytes("--max-tensor-bytes BYTES", o.engine.tensors.max_bytes, {0},
          "Bytes of the resident tensors of each device, with those of uploads "
          "under way; 0: three quarters of the device's memory.");
  c.Bytes("--max-tensor-bytes-per-connection BYTES",
          o.engine.tensors.max_bytes_of_one, {0},
          "Of these, what one connection has created or is uploading; 0: three "
          "quarters.");
  c.Duration("--tensor-ttl TIME", o.server.limits.tensor_ttl,
             {kSecond, absl::Hours(24 * 366 * 10)},
             "Time without use after which a tensor is deleted, unless its "
             "creator said otherwise.");
  c.File("--model-repository DIR", o.server.models.directory,
         "Folder in which models are kept, so that a restart brings them back. "
         "Without it, they end with the daemon.");
  c.Bytes("--model-repository-limit-bytes BYTES", o.server.models.limit_bytes,
          {0}, "Most that the files of models may have in all; 0: no limit.");
}

void DeclareKernels(cli::Command& c, Options& o) {
  c.Heading("Kernels and their cache");
  c.Text("--cache-dir DIR", o.cache.directory, "Compiled kernels.");
  c.Bytes("--cache-limit-bytes BYTES", o.cache_limit_bytes, {0},
          "Most that --cache-dir may hold, least recently used kernels go "
          "first; 0: no limit.");
  c.List("--cache-layers DIRS", o.cache.layers,
         "Cache directories that are only read, as in a container image, "
         "separated by commas; asked before --cache-dir.");
  c.Text("--cache-redis ADDRESS", o.redis,
         "Redis server whose kernels machines share: "
         "redis://[user[:password]@]host[:port], rediss://... for TLS, or "
         "unix:/path. Needs --cache-signing-key-file.");
  c.File("--cache-redis-ca-file FILE", o.redis_ca_file,
         "Certificate authorities that --cache-redis is trusted by, for "
         "rediss://. Without it, those of the system.");
  c.Switch("--cache-redis-allow-unsigned", o.redis_allow_unsigned,
           "Use --cache-redis without a signing key: whoever can write to the "
           "server decides what the GPUs run.");
  c.File("--cache-redis-password-file FILE", o.redis_password_file,
         "File with the password of --cache-redis.");
  c.File("--cache-signing-key-file FILE", o.signing_key_file,
         "File with the key that signs what is put on --cache-redis; what is "
         "found there without that signature is ignored.");
  c.Switch(
      "--require-complete", o.cache.require_complete,
      "Compile nothing: a product whose kernel is not in the cache runs on "
      "another one of its family, and is refused where there is none. For "
      "production, with a cache that gemm-warmup prepared.");
  c.Int("--compile-threads N", o.engine.preparer.compile_threads, {1, 64},
        "Threads that compile kernels and wait for compiles.");
  c.Int("--compile-queue N", o.engine.preparer.max_waiting, {1, 65536},
        "Requests that may wait for kernels, outside of --queue. Beyond it, "
        "who has most of them waiting is refused with RESOURCE_EXHAUSTED.");
  c.File("--nvrtc PATH", o.nvrtc,
         "File or folder of libnvrtc, or none to compile nothing. Without it, "
         "where the dynamic loader and the usual folders have it.");
  c.File("--record-problems FILE", o.record_problems,
         "File to which each new shape of a product is added, as gemm-warmup "
         "reads it, until it has 65536 lines or 64 MiB. One that holds "
         "something else (bytes that are no text, or lines none of which is a "
         "problem), or more than 64 MiB, is refused.");
  c.List("--preset NAMES", o.presets,
         "Models, separated by commas, that gemm-warmup knows: after the start "
         "the log says which of their kernels the cache lacks.");
  c.Int("--preset-tokens N", o.preset_tokens, {1, warmup::kMaxPresetTokens},
        "Most tokens that a request of these models has.");
  c.File("--template-dir DIR", o.template_dir,
         "Device templates in place of those built in; for kernel authors.");
}

// Ports that are chosen freely are others each time.
absl::Status CheckTwice(const std::vector<std::string>& addresses) {
  absl::flat_hash_set<absl::string_view> seen;
  for (const std::string& address : addresses) {
    if (absl::EndsWith(address, ":0") || seen.insert(address).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--listen has ", address, " twice; allowed: once"));
  }
  return absl::OkStatus();
}

// What is said of a server without naming it would change nothing, least of
// all a key that somebody relies on.
absl::Status CheckRedis(const Options& options) {
  if (!options.redis.empty()) return absl::OkStatus();
  const struct {
    const char* name;
    bool given;
  } others[] = {
      {"--cache-redis-ca-file", !options.redis_ca_file.empty()},
      {"--cache-redis-allow-unsigned", options.redis_allow_unsigned},
      {"--cache-redis-password-file", !options.redis_password_file.empty()},
      {"--cache-signing-key-file", !options.signing_key_file.empty()}};
  for (const auto& [name, given] : others) {
    if (!given) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, " needs --cache-redis"));
  }
  return absl::OkStatus();
}

}  // namespace

// As long as short sequences take, and clients until they ask again: a hundred
// products of 1024^3, which keep an H100 for 0.65 ms, took a client 1.06 ms
// with 200 us, and 0.93 ms with this.
absl::Duration DefaultSpin() {
  return std::thread::hardware_concurrency() < 8 ? absl::ZeroDuration()
                                                 : absl::Milliseconds(1);
}

Options::Options() {
  server.listen = {"127.0.0.1:50051"};
  cache.directory = DefaultCacheDirectory();
}

void Declare(cli::Command& command, Options& options) {
  DeclareNetwork(command, options);
  DeclareLimits(command, options.server.limits, options.no_legacy_ipc);
  DeclareProducts(command, options);
  DeclareKernels(command, options);
}

host::HostDeviceOptions HostOptions(const Options& options) {
  host::HostDeviceOptions host;
  if (options.host_arithmetic == "double") {
    host.arithmetic = device::SumArithmetic::kDouble;
  }
  host.model = host::PropertiesOf(options.host_model);
  return host;
}

absl::Status Check(const Options& options) {
  if (options.server.listen.empty()) {
    return absl::InvalidArgumentError(
        "--listen is empty; the daemon needs an address to serve at");
  }
  for (const std::string& address : options.server.listen) {
    if (const absl::Status status = cli::CheckListenAddress(address);
        !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--listen is ", address, ": ", status.message()));
    }
  }
  RETURN_IF_ERROR(CheckTwice(options.server.listen));
  if (const std::string& address = options.monitor.listen; !address.empty()) {
    if (const absl::Status status = cli::CheckListenAddress(address);
        !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--metrics-listen is ", address, ": ", status.message()));
    }
  }
  if (options.monitor.status_page && options.monitor.listen.empty()) {
    return absl::InvalidArgumentError(
        "--status-page has nowhere to be shown; it needs --metrics-listen");
  }
  for (const std::string& preset : options.presets) {
    RETURN_IF_ERROR(warmup::FindModel(preset).status());
  }
  RETURN_IF_ERROR(CheckRedis(options));
  const tls::Files& tls = options.server.tls;
  if (tls.certificate.empty() != tls.key.empty()) {
    return absl::InvalidArgumentError(
        "--tls-certificate-file and --tls-key-file go together");
  }
  if (!tls.client_ca.empty() && tls.certificate.empty()) {
    return absl::InvalidArgumentError(
        "--tls-client-ca-file needs --tls-certificate-file");
  }
  const bool identified = !options.server.identity.policy.empty();
  if (!identified && (!tls.client_ca.empty() ||
                      !options.server.identity.token_digests.empty())) {
    return absl::InvalidArgumentError(absl::StrCat(
        tls.client_ca.empty() ? "--token-digest-file" : "--tls-client-ca-file",
        " needs --policy-file, which says what principals may do"));
  }
  const rpc::Limits& limits = options.server.limits;
  if (identified && limits.admin_calls) {
    return absl::InvalidArgumentError(
        "--admin-calls is for everybody; with --policy-file, give the role "
        "admin to those who are to have it");
  }
  if (limits.max_in_flight_bytes < limits.max_message_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--max-inflight-bytes is ",
        cli::FormatBytes(limits.max_in_flight_bytes), "; allowed: from ",
        cli::FormatBytes(limits.max_message_bytes), ", --max-message-bytes"));
  }
  return absl::OkStatus();
}

}  // namespace gemmd::daemon
