// Bytes of HTTP/2, as a client and a server send them.
#ifndef GEMMD_TESTS_SERVICE_RPC_HTTP2_H_
#define GEMMD_TESTS_SERVICE_RPC_HTTP2_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "service/rpc/frame_reader.h"

namespace gemmd::rpc::http2 {

inline constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

inline std::string Number(uint64_t value, int bytes) {
  std::string number;
  for (int i = bytes - 1; i >= 0; --i) {
    number += static_cast<char>(value >> 8 * i);
  }
  return number;
}

inline std::string Frame(uint8_t type, uint32_t stream,
                         const std::string& payload, uint8_t flags = 0) {
  return Number(payload.size(), 3) + Number(type, 1) + Number(flags, 1) +
         Number(stream, 4) + payload;
}

inline std::string Headers(uint32_t stream) {
  return Frame(rpc::Frame::kHeaders, stream, "headers");
}
inline std::string Reset(uint32_t stream) {
  return Frame(rpc::Frame::kReset, stream, Number(8, 4));
}
// What ends a call that the daemon has answered.
inline std::string Trailers(uint32_t stream) {
  return Frame(rpc::Frame::kHeaders, stream, "trailers",
               rpc::Frame::kEndStream);
}

// In frames of 16 KiB, as gRPC sends it.
inline std::string Data(uint32_t stream, std::string_view bytes) {
  std::string frames;
  while (!bytes.empty()) {
    const size_t part = std::min<size_t>(bytes.size(), 16 << 10);
    frames +=
        Frame(rpc::Frame::kData, stream, std::string(bytes.substr(0, part)));
    bytes.remove_prefix(part);
  }
  return frames;
}

// The beginning of a message: `there` of its `all` bytes.
inline std::string Message(uint32_t stream, int64_t there, int64_t all) {
  return Data(stream, Number(all, 5) + std::string(there, 'm'));
}
// `bytes` more of it.
inline std::string More(uint32_t stream, int64_t bytes) {
  return Data(stream, std::string(bytes, 'm'));
}

}  // namespace gemmd::rpc::http2

#endif  // GEMMD_TESTS_SERVICE_RPC_HTTP2_H_
