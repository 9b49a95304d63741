// Counts the calls that a client begins, and the frames that nobody needs.
// Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_FRAME_COUNTER_H_
#define GEMMD_SERVICE_RPC_FRAME_COUNTER_H_

#include <cstdint>
#include <utility>

#include "service/rpc/frame_reader.h"

namespace gemmd::rpc {

class FrameCounter {
 public:
  struct Frames {
    int64_t calls = 0;  // That begin.
    // That bring neither a call nor bytes: settings, pings, windows,
    // priorities, resets, trailers, headers of what is no stream, data of
    // hardly any bytes or for calls that have ended, and whatever is unknown.
    // Long ones count for as many as they are work.
    int64_t idle = 0;
    int64_t pings = 0;   // Of these, pings that want an answer.
    int64_t resets = 0;  // Of these, ends of calls that nobody waits for.
  };

  // `open`: its stream is, which neither side has ended.
  void Count(const Frame& frame, bool open);
  // Those counted since the last time.
  Frames Take() { return std::exchange(frames_, {}); }

  // Whether the headers of one call have become longer than any are, or come in
  // more frames. gRPC 1.51 holds them until they end and reads them from their
  // start with every frame. Or whether those of all calls have, of a client who
  // has not yet acknowledged the settings: it is then that gRPC begins to hold
  // him to its limit, and a byte may stand for a header of hundreds.
  bool endless_headers() const { return endless_headers_; }
  // Whether gRPC holds him to the number of streams, too, that it keeps open.
  bool acknowledged() const { return acknowledged_; }

  // So many bytes of data may bring an idle frame with them.
  static constexpr int64_t kBytesPerIdleFrame = 1024;
  // Of headers, before settings are acknowledged.
  static constexpr int64_t kMaxEarlyHeadersBytes = 16 << 10;

 private:
  Frames frames_;
  uint32_t last_stream_ = 0;
  bool of_call_ = false;        // The last frame: headers that begin a call.
  int64_t headers_bytes_ = 0;   // Of the call whose headers came last,
  int64_t headers_frames_ = 0;  // and the frames after their first.
  bool acknowledged_ = false;   // The settings.
  int64_t early_bytes_ = 0;     // Of headers, before that.
  bool endless_headers_ = false;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_FRAME_COUNTER_H_
