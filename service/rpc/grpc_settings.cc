#include "service/rpc/grpc_settings.h"

#include <algorithm>
#include <limits>
#include <thread>

#include "absl/time/time.h"
#include "service/rpc/connection.h"

namespace gemmd::rpc {
namespace {

// gRPC wants milliseconds in an int, and its largest for never.
int Milliseconds(absl::Duration duration) {
  return static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(duration),
                                            std::numeric_limits<int>::max()));
}

}  // namespace

void SetLimits(const Limits& limits, grpc::ServerBuilder& builder) {
  const auto set = [&](const char* argument, int64_t value) {
    builder.AddChannelArgument(argument, static_cast<int>(value));
  };
  // What arrives of a message is bounded as it arrives, by Connection, and its
  // size is looked at by Call: what gRPC refuses looks like a client that left.
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  // A small compressed message can become any number of bytes before the
  // limit is looked at, and matrices do not compress.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  set(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits.max_calls_per_connection);
  // Of a stream that nobody reads, gRPC takes no more than this: with probes
  // it would open the window as far as the line is fast.
  set(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kCallAllowanceBytes);
  set(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(limits.connection_idle));
  set(GRPC_ARG_MAX_CONNECTION_AGE_MS, Milliseconds(limits.connection_age));
  set(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(limits.keepalive_time));
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(limits.keepalive_timeout));
  // Clients may ask as often as that themselves.
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10000);
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
}

int DefaultLoops() {
  return std::clamp<int>(std::thread::hardware_concurrency() / 2, 2, 8);
}

}  // namespace gemmd::rpc
