#include "jit/worker_protocol.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/file.h"
#include "jit/record.h"
#include "jit/status.h"

namespace gemmd::jit {
namespace {

constexpr uint64_t kMaxMessageBytes = uint64_t{256} << 20;

enum Tag : uint32_t {
  kSource = 1,
  kOption = 2,
  kCode = 3,
  kMessage = 4,
  kCubin = 5,
  kLog = 6,
};

absl::Status WaitFor(int socket, short events, absl::Time deadline) {
  while (true) {
    pollfd poll_fd = {.fd = socket, .events = events, .revents = 0};
    const int64_t left_ms =
        std::clamp<int64_t>(absl::ToInt64Milliseconds(absl::Ceil(
                                deadline - absl::Now(), absl::Milliseconds(1))),
                            0, 1 << 30);
    const int ready = poll(&poll_fd, 1, static_cast<int>(left_ms));
    if (ready > 0) return absl::OkStatus();
    if (ready < 0 && errno != EINTR) return ErrnoStatus(errno, "wait");
    if (absl::Now() >= deadline) {
      return absl::DeadlineExceededError("no answer in time");
    }
  }
}

bool IsTransient(int error) {
  return error == EINTR || error == EAGAIN || error == EWOULDBLOCK;
}

absl::Status ReceiveExactly(int socket, absl::Time deadline, char* to,
                            size_t size) {
  while (size > 0) {
    RETURN_IF_ERROR(WaitFor(socket, POLLIN, deadline));
    const ssize_t got = recv(socket, to, size, MSG_DONTWAIT);
    if (got < 0 && IsTransient(errno)) continue;
    if (got <= 0) return absl::UnavailableError("the other side is gone");
    to += got;
    size -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::Status SendExactly(int socket, absl::Time deadline,
                         absl::string_view bytes) {
  while (!bytes.empty()) {
    RETURN_IF_ERROR(WaitFor(socket, POLLOUT, deadline));
    const ssize_t put =
        send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put < 0 && IsTransient(errno)) continue;
    if (put < 0) return absl::UnavailableError("the other side is gone");
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeRequest(const CompileRequest& request) {
  RecordWriter writer;
  writer.Add(kSource, request.source);
  for (const std::string& option : request.options) {
    writer.Add(kOption, option);
  }
  return std::move(writer).Release();
}

absl::StatusOr<CompileRequest> DecodeRequest(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const Record record, Record::Parse(bytes));
  CompileRequest request;
  ASSIGN_OR_RETURN(const absl::string_view source, record.Get(kSource));
  request.source = std::string(source);
  for (absl::string_view option : record.GetAll(kOption)) {
    request.options.emplace_back(option);
  }
  return request;
}

std::string EncodeReply(const absl::StatusOr<CompileOutput>& output) {
  RecordWriter writer;
  writer.AddInt(kCode, static_cast<int64_t>(output.status().code()));
  writer.Add(kMessage, output.status().message());
  writer.Add(kCubin, output.ok() ? output->cubin : "");
  writer.Add(kLog, output.ok() ? output->log : "");
  return std::move(writer).Release();
}

absl::Status DecodeReply(absl::string_view bytes,
                         absl::StatusOr<CompileOutput>& output) {
  ASSIGN_OR_RETURN(const Record record, Record::Parse(bytes));
  ASSIGN_OR_RETURN(const int64_t code, record.GetInt(kCode));
  ASSIGN_OR_RETURN(const absl::string_view message, record.Get(kMessage));
  ASSIGN_OR_RETURN(const absl::string_view cubin, record.Get(kCubin));
  ASSIGN_OR_RETURN(const absl::string_view log, record.Get(kLog));
  if (code == 0) {
    output =
        CompileOutput{.cubin = std::string(cubin), .log = std::string(log)};
  } else {
    output = absl::Status(static_cast<absl::StatusCode>(code), message);
  }
  return absl::OkStatus();
}

absl::Status SendMessage(int socket, absl::string_view bytes,
                         absl::Time deadline) {
  std::string length;
  AppendU64(length, bytes.size());
  RETURN_IF_ERROR(SendExactly(socket, deadline, length));
  return SendExactly(socket, deadline, bytes);
}

absl::StatusOr<std::string> ReceiveMessage(int socket, absl::Time deadline) {
  std::string head(sizeof(uint64_t), '\0');
  RETURN_IF_ERROR(ReceiveExactly(socket, deadline, head.data(), head.size()));
  absl::string_view rest = head;
  uint64_t length = 0;
  CHECK(TakeU64(rest, length));
  if (length > kMaxMessageBytes) {
    return absl::DataLossError(absl::StrCat("a message of ", length, " bytes"));
  }
  std::string bytes(length, '\0');
  RETURN_IF_ERROR(ReceiveExactly(socket, deadline, bytes.data(), bytes.size()));
  return bytes;
}

}  // namespace gemmd::jit
