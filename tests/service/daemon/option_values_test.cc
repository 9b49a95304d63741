// What each option sets, and what values it takes: two that were swapped would
// be believed by whoever gives them.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "clients/cli/command_line.h"
#include "service/daemon/options.h"

namespace gemmd::daemon {
namespace {

using O = const Options&;
using Strings = std::vector<std::string>;

absl::Status Parse(const std::string& line, Options& options) {
  cli::Program program("gemmd", "");
  Declare(program, options);
  return program.ParseLine(line);
}

TEST(OptionValuesTest, EachOptionSetsWhatItNames) {
  const struct {
    const char* line;
    std::function<bool(O)> is_set;
  } cases[] = {
      {"--listen=unix:/a,unix:/b",
       [](O o) {
         return o.server.listen == Strings{"unix:/a", "unix:/b"};
       }},
      {"--allow-plaintext-nonloopback",
       [](O o) { return o.server.allow_plaintext_nonloopback; }},
      {"--tls-certificate-file=x",
       [](O o) { return o.server.tls.certificate == "x"; }},
      {"--tls-key-file=x", [](O o) { return o.server.tls.key == "x"; }},
      {"--tls-client-ca-file=x",
       [](O o) { return o.server.tls.client_ca == "x"; }},
      {"--policy-file=x", [](O o) { return o.server.identity.policy == "x"; }},
      {"--token-digest-file=x",
       [](O o) { return o.server.identity.token_digests == "x"; }},
      {"--port-file=x", [](O o) { return o.port_file == "x"; }},
      {"--log-format=json", [](O o) { return o.log_format == "json"; }},
      {"--metrics-listen=x", [](O o) { return o.monitor.listen == "x"; }},
      {"--status-page", [](O o) { return o.monitor.status_page; }},
      {"--network-threads=3", [](O o) { return o.server.loops == 3; }},
      {"--spin=7ms", [](O o) { return o.spin == absl::Milliseconds(7); }},
      {"--drain-grace=7s",
       [](O o) { return o.server.drain_grace == absl::Seconds(7); }},
      {"--drain-timeout=7s",
       [](O o) { return o.server.drain_timeout == absl::Seconds(7); }},
      {"--probe-timeout=7s",
       [](O o) { return o.server.probe_timeout == absl::Seconds(7); }},
      {"--max-message-bytes=7MiB",
       [](O o) { return o.server.limits.max_message_bytes == 7 << 20; }},
      {"--max-inflight-bytes=7MiB",
       [](O o) { return o.server.limits.max_in_flight_bytes == 7 << 20; }},
      {"--max-wait=7s",
       [](O o) { return o.server.limits.max_wait == absl::Seconds(7); }},
      {"--region-bytes=7",
       [](O o) { return o.server.limits.max_region_bytes == 7; }},
      {"--no-legacy-ipc", [](O o) { return o.no_legacy_ipc; }},
      {"--max-connections=7",
       [](O o) { return o.server.limits.max_connections == 7; }},
      {"--max-calls=17", [](O o) { return o.server.limits.max_calls == 17; }},
      {"--max-calls-per-connection=7",
       [](O o) { return o.server.limits.max_calls_per_connection == 7; }},
      {"--stall-timeout=7s",
       [](O o) { return o.server.limits.stall_timeout == absl::Seconds(7); }},
      {"--pressed-stall-timeout=7s",
       [](O o) {
         return o.server.limits.pressed_stall_timeout == absl::Seconds(7);
       }},
      {"--max-call-time=7s",
       [](O o) { return o.server.limits.max_call_time == absl::Seconds(7); }},
      {"--connection-idle=7s",
       [](O o) { return o.server.limits.connection_idle == absl::Seconds(7); }},
      {"--connection-age=7s",
       [](O o) { return o.server.limits.connection_age == absl::Seconds(7); }},
      {"--keepalive-time=7s",
       [](O o) { return o.server.limits.keepalive_time == absl::Seconds(7); }},
      {"--keepalive-timeout=7s",
       [](O o) {
         return o.server.limits.keepalive_timeout == absl::Seconds(7);
       }},
      {"--device=cuda", [](O o) { return o.device == "cuda"; }},
      {"--host-arithmetic=double",
       [](O o) { return o.host_arithmetic == "double"; }},
      {"--host-model=h200", [](O o) { return o.host_model == "h200"; }},
      {"--lanes=7", [](O o) { return o.engine.executor.lanes == 7; }},
      {"--queue=7", [](O o) { return o.engine.executor.max_queue == 7; }},
      {"--hang-limit=7s",
       [](O o) { return o.engine.executor.hang_limit == absl::Seconds(7); }},
      {"--max-work=7s",
       [](O o) { return o.engine.executor.max_work == absl::Seconds(7); }},
      {"--max-kernels=17",
       [](O o) { return o.engine.kernels.max_kernels == 17u; }},
      {"--tune-share=7", [](O o) { return o.engine.tuner.share_percent == 7; }},
      {"--admin-calls", [](O o) { return o.server.limits.admin_calls; }},
      {"--max-tensor-bytes=7",
       [](O o) { return o.engine.tensors.max_bytes == 7; }},
      {"--max-tensor-bytes-per-connection=7",
       [](O o) { return o.engine.tensors.max_bytes_of_one == 7; }},
      {"--tensor-ttl=7s",
       [](O o) { return o.server.limits.tensor_ttl == absl::Seconds(7); }},
      {"--model-repository=x",
       [](O o) { return o.server.models.directory == "x"; }},
      {"--model-repository-limit-bytes=7",
       [](O o) { return o.server.models.limit_bytes == 7; }},
      {"--cache-dir=x", [](O o) { return o.cache.directory == "x"; }},
      {"--cache-limit-bytes=7", [](O o) { return o.cache_limit_bytes == 7; }},
      {"--cache-layers=x,y",
       [](O o) {
         return o.cache.layers == Strings{"x", "y"};
       }},
      {"--cache-redis=x", [](O o) { return o.redis == "x"; }},
      {"--cache-redis-ca-file=x", [](O o) { return o.redis_ca_file == "x"; }},
      {"--cache-redis-allow-unsigned",
       [](O o) { return o.redis_allow_unsigned; }},
      {"--cache-redis-password-file=x",
       [](O o) { return o.redis_password_file == "x"; }},
      {"--cache-signing-key-file=x",
       [](O o) { return o.signing_key_file == "x"; }},
      {"--require-complete", [](O o) { return o.cache.require_complete; }},
      {"--compile-threads=7",
       [](O o) { return o.engine.preparer.compile_threads == 7; }},
      {"--compile-queue=7",
       [](O o) { return o.engine.preparer.max_waiting == 7; }},
      {"--nvrtc=x", [](O o) { return o.nvrtc == "x"; }},
      {"--record-problems=x", [](O o) { return o.record_problems == "x"; }},
      {"--preset=x,y",
       [](O o) {
         return o.presets == Strings{"x", "y"};
       }},
      {"--preset-tokens=7", [](O o) { return o.preset_tokens == 7; }},
      {"--template-dir=x", [](O o) { return o.template_dir == "x"; }},
  };
  for (const auto& [line, is_set] : cases) {
    Options options;
    EXPECT_FALSE(is_set(options)) << line << " is the default";
    const absl::Status status = Parse(line, options);
    EXPECT_TRUE(status.ok()) << line << ": " << status;
    EXPECT_TRUE(is_set(options)) << line;
  }
}

// The first and the last value that is taken, and those beyond.
TEST(OptionValuesTest, NumbersHaveBounds) {
  const struct {
    const char* option;
    const char* below;  // Null: nothing is.
    const char* least;
    const char* most;
    const char* above;  // Null: nothing is.
  } cases[] = {
      {"--network-threads", "-1", "0", "64", "65"},
      {"--spin", "-1ms", "0", "10ms", "11ms"},
      {"--drain-grace", "-1s", "0", "1h", "3601s"},
      {"--drain-timeout", "-1s", "0", "1h", "3601s"},
      {"--probe-timeout", "99ms", "100ms", "1h", "3601s"},
      {"--max-message-bytes", "1048575", "1MiB", "2147483647", "2147483648"},
      {"--max-inflight-bytes", "65535", "65536", "1TiB", nullptr},
      {"--max-wait", "0", "1ms", "87600h", nullptr},
      {"--region-bytes", "-1", "0", "1TiB", nullptr},
      {"--max-connections", "0", "1", "24000", "24001"},
      {"--max-calls", "15", "16", "1048576", "1048577"},
      {"--max-calls-per-connection", "0", "1", "65536", "65537"},
      {"--stall-timeout", "0", "1ms", "87600h", nullptr},
      {"--pressed-stall-timeout", "0", "1ms", "87600h", nullptr},
      {"--max-call-time", "0", "1ms", "87600h", nullptr},
      {"--connection-idle", "999ms", "1s", "87600h", nullptr},
      {"--connection-age", "999ms", "1s", "87600h", nullptr},
      {"--keepalive-time", "999ms", "1s", "87600h", nullptr},
      {"--keepalive-timeout", "0", "1ms", "87600h", nullptr},
      {"--lanes", "0", "1", "16", "17"},
      {"--queue", "0", "1", "65536", "65537"},
      {"--hang-limit", "999ms", "1s", "24h", "86401s"},
      {"--max-work", "-1s", "0", "24h", "86401s"},
      {"--max-kernels", "15", "16", "65536", "65537"},
      {"--tune-share", "-1", "0", "50", "51"},
      {"--max-tensor-bytes", "-1", "0", "1TiB", nullptr},
      {"--max-tensor-bytes-per-connection", "-1", "0", "1TiB", nullptr},
      {"--tensor-ttl", "999ms", "1s", "87840h", "87841h"},
      {"--model-repository-limit-bytes", "-1", "0", "1TiB", nullptr},
      {"--cache-limit-bytes", "-1", "0", "1TiB", nullptr},
      {"--compile-threads", "0", "1", "64", "65"},
      {"--compile-queue", "0", "1", "65536", "65537"},
      {"--preset-tokens", "0", "1", "65536", "65537"},
  };
  for (const auto& [option, below, least, most, above] : cases) {
    const auto parse = [option = option](const char* value) {
      Options options;
      return Parse(absl::StrCat(option, "=", value), options);
    };
    for (const char* value : {least, most}) {
      const absl::Status status = parse(value);
      EXPECT_TRUE(status.ok()) << option << " " << value << ": " << status;
    }
    for (const char* value : {below, above}) {
      if (value == nullptr) continue;
      const absl::Status status = parse(value);
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << option << " " << value;
      EXPECT_TRUE(absl::StrContains(
          status.message(), absl::StrCat(option, " is ", value, "; allowed: ")))
          << status;
    }
  }
}

}  // namespace
}  // namespace gemmd::daemon
