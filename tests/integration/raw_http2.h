// A client that speaks HTTP/2 by hand, so that it can do what no library
// would: open streams and say nothing, send half of a message, never read.
// Thread-compatible; every wait is bounded.
#ifndef GEMMD_TESTS_INTEGRATION_RAW_HTTP2_H_
#define GEMMD_TESTS_INTEGRATION_RAW_HTTP2_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "jit/base/file.h"

namespace gemmd::testing {

class RawHttp2 {
 public:
  // `address` is "127.0.0.1:50051".
  explicit RawHttp2(const std::string& address);

  // Whether the connection stands, as far as is known.
  bool alive() const { return alive_; }

  // Opens a call of "/gemmd.v1.MatmulService/Matmul"; returns its stream.
  // `timeout` is what the daemon is told, such as "2S": nothing ends the call
  // here when it has passed. `announced` is of how many bytes the daemon is told
  // that the largest message has; "": of none.
  uint32_t Open(std::string_view path, std::string_view timeout = "",
                std::string_view announced = "");
  // Sends what the daemon's windows allow, at most until `patience` is over
  // without any progress. Returns how many bytes went.
  int64_t Send(uint32_t stream, std::string_view bytes, bool end,
               absl::Duration patience = absl::Seconds(5));
  // The same for a call that the daemon has ended, as a client does that does
  // not know it yet.
  int64_t SendLate(uint32_t stream, std::string_view bytes);
  // The prefix of a gRPC message of `size` bytes, of which none need follow.
  void SendPrefix(uint32_t stream, uint32_t size);
  void Reset(uint32_t stream);
  // The bytes of a frame, as they are.
  static std::string FrameOf(uint8_t type, uint8_t flags, uint32_t stream,
                             std::string_view payload);
  // Sends bytes that are no message, such as frames.
  void Write(std::string_view bytes);
  // Takes what the daemon sends for `time`, or until it closes the connection;
  // answers nothing that gives it more room to send.
  void Read(absl::Duration time);

  // Streams that the daemon has ended.
  int64_t ended() const { return ended_; }

 private:
  void Frame(uint8_t type, uint8_t flags, uint32_t stream,
             std::string_view payload);
  // Returns how many bytes went, of a stream with a window.
  int64_t SendData(uint32_t stream, std::string_view bytes, bool end,
                   absl::Duration patience, bool late);
  // Reads and handles one frame; false when none came in time.
  bool ReadFrame(absl::Duration patience);
  bool Fill(char* to, size_t size, absl::Duration patience);

  jit::UniqueFd fd_;
  bool alive_ = false;
  uint32_t next_stream_ = 1;
  int64_t initial_window_ = 65535;
  int64_t window_ = 65535;
  std::map<uint32_t, int64_t> windows_;
  std::set<uint32_t> open_;
  int64_t ended_ = 0;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_RAW_HTTP2_H_
