// What clients that speak HTTP/2 by hand have in common.
#ifndef GEMMD_TESTS_INTEGRATION_RAW_FRAMES_H_
#define GEMMD_TESTS_INTEGRATION_RAW_FRAMES_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "jit/base/file.h"

namespace gemmd::testing {

inline constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// https://www.rfc-editor.org/rfc/rfc9113#name-frame-definitions
enum FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kWindowUpdate = 8,
};
inline constexpr uint8_t kEndStream = 1;
inline constexpr uint8_t kAck = 1;
inline constexpr uint8_t kEndHeaders = 4;
inline constexpr size_t kHeadBytes = 9;  // Before a frame's payload.

inline std::string Big32(uint32_t value) {
  value = htonl(value);
  return std::string(reinterpret_cast<const char*>(&value), 4);
}

inline uint32_t FromBig32(const char* bytes) {
  uint32_t value;
  std::memcpy(&value, bytes, 4);
  return ntohl(value);
}

// A header as HPACK has it without compression.
inline std::string Literal(std::string_view name, std::string_view value) {
  std::string out(1, '\0');
  out += static_cast<char>(name.size());
  out.append(name);
  out += static_cast<char>(value.size());
  out.append(value);
  return out;
}

// Headers of a call of "/gemmd.v1.MatmulService/Matmul", with others.
inline std::string HeadersOf(std::string_view path,
                             std::string_view others = "") {
  return Literal(":method", "POST") + Literal(":scheme", "http") +
         Literal(":path", path) + Literal(":authority", "test") +
         Literal("te", "trailers") + std::string(others) +
         Literal("content-type", "application/grpc");
}

// A socket connected to "127.0.0.1:50051"; none when it is refused. Sending
// gives up after five seconds.
inline jit::UniqueFd ConnectTo(const std::string& address) {
  jit::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(
      std::atoi(address.substr(address.rfind(':') + 1).c_str())));
  const timeval patience = {.tv_sec = 5, .tv_usec = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
    return {};
  }
  return fd;
}

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_RAW_FRAMES_H_
