// What the daemon grants its clients: each an option of gemmd.
#ifndef GEMMD_SERVICE_RPC_LIMITS_H_
#define GEMMD_SERVICE_RPC_LIMITS_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace gemmd::rpc {

// Requests other than products and uploads.
inline constexpr int64_t kMaxSmallMessageBytes = 64 << 10;

// Matrices that come or go in messages of a stream: a message costs much more
// than a byte. What goes is not cut into less than this, but for the last one;
// what comes may be in so many messages, and in one more for each of these.
inline constexpr int64_t kLeastChunkBytes = 1 << 10;
inline constexpr int64_t kMostSmallChunks = 1024;

// Of a large matrix, what goes to a device that is free, and what comes from
// it, at once: enough for copies to run at full speed. The end of an upload
// waits for the last part, and the first byte of a result for all of the first
// one. Besides, malloc maps 32 MiB anew each time: 64 MiB came from the host
// device at 1.1 GB/s in parts of that, and come at 2.5 in these (2 cores).
inline constexpr int64_t kPartBytes = 8 << 20;

// A result is sent with the padding that its client asks for while it has no
// more bytes than these, or so many times what it has without: lines may be
// aligned, but a few bytes are no reason to send zeros for minutes.
inline constexpr int64_t kMostPaddedBytes = 64 << 20;
inline constexpr int64_t kMostPaddedTimes = 32;

struct Limits {
  // Of one product or part of an upload, and of one answer. At most 2^31 - 1:
  // gRPC holds message sizes in an int.
  int64_t max_message_bytes = int64_t{1} << 30;
  // Held for all clients together: requests, whole or partial, and as much
  // again of answers that are not delivered. Messages of up to 64 KiB are
  // bounded by the number of calls alone.
  int64_t max_in_flight_bytes = int64_t{4} << 30;
  // Of each of the two, what one connection holds at most: half, or one
  // message.
  int64_t share_bytes() const {
    return std::max(max_in_flight_bytes / 2, max_message_bytes);
  }
  // How long a call waits for its turn to hold bytes, here or on a device.
  absl::Duration max_wait = absl::Seconds(60);

  int64_t max_connections = 1000;
  // Of all connections together. One connection gets 256, or less while there
  // are so many connections that not all could have as many.
  int64_t max_calls = 8192;
  int64_t max_calls_per_connection = 256;

  // A call that waits for bytes to come or go, when too few do.
  absl::Duration stall_timeout = absl::Seconds(30);
  // The same while others wait for what such calls hold.
  absl::Duration pressed_stall_timeout = absl::Seconds(2);
  // A call without a deadline.
  absl::Duration max_call_time = absl::Hours(1);

  // A connection without calls; and any, which is then asked to come again.
  absl::Duration connection_idle = absl::Hours(1);
  absl::Duration connection_age = absl::InfiniteDuration();
  // A silent connection is asked whether it is alive, and ended unless it
  // answers in time.
  absl::Duration keepalive_time = absl::Minutes(1);
  absl::Duration keepalive_timeout = absl::Seconds(20);

  // Clients may do what touches others: evict kernels, list all tensors.
  bool admin_calls = false;

  int64_t max_tensor_bytes = 0;
  // Of memory shared with clients, on Unix sockets; 0: none is.
  int64_t max_region_bytes = int64_t{4} << 30;
  absl::Duration tensor_ttl = absl::Hours(1);
  int64_t max_queue = 256;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_LIMITS_H_
