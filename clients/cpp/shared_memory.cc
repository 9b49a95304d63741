#include "clients/cpp/shared_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"

namespace gemmd::client {
namespace {

constexpr size_t kHandleBytes = 32;
// For each step of giving memory to a daemon.
constexpr timeval kPatience = {.tv_sec = 10, .tv_usec = 0};

absl::Status CannotShare(absl::string_view what, int error) {
  return absl::FailedPreconditionError(absl::StrCat(
      "memory cannot be shared: ", what, ": ", strerror(error)));
}

// Whether one client may have `bytes`, where all may have `bytes_of_all`.
absl::Status CheckRoom(int64_t bytes, int64_t bytes_of_all) {
  if (bytes_of_all == 0) {
    return absl::FailedPreconditionError(
        "memory cannot be shared: the daemon's --region-bytes is 0");
  }
  const int64_t most = bytes_of_all - bytes_of_all / 4;  // Three quarters.
  if (bytes <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("a region of ", bytes,
                   " bytes does not fit: the limit of one is ", most));
}

absl::Status TurnedAway() {
  return absl::UnavailableError(
      "the daemon does not take the memory: it has too many regions, or ends");
}

// One byte, and with it the descriptor.
bool Send(int socket, int memfd) {
  char byte = 'm';
  iovec part = {.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &memfd, sizeof memfd);
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

}  // namespace

absl::StatusOr<int> SharedMemory::Map(int64_t bytes) {
  const int memfd = memfd_create("gemmd", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memfd < 0) return CannotShare("memfd_create", errno);
  absl::Cleanup close_memfd = [memfd] { close(memfd); };
  // All pages are there from the beginning: the daemon takes no others.
  int error = ftruncate(memfd, bytes) == 0 ? 0 : errno;
  if (error == 0) error = posix_fallocate(memfd, 0, bytes);
  if (error == ENOMEM || error == ENOSPC) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for ", bytes, " bytes"));
  }
  if (error != 0) return CannotShare("allocation", error);
  void* const mapped = mmap(nullptr, static_cast<size_t>(bytes),
                            PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
  if (mapped == MAP_FAILED) return CannotShare("mmap", errno);
  bytes_ = {static_cast<char*>(mapped), static_cast<size_t>(bytes)};
  std::move(close_memfd).Cancel();
  return memfd;
}

absl::Status SharedMemory::Give(const std::string& path, int memfd) {
  sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof name.sun_path) {
    return CannotShare(path, ENAMETOOLONG);
  }
  path.copy(name.sun_path, path.size());
  connection_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  setsockopt(connection_, SOL_SOCKET, SO_SNDTIMEO, &kPatience,
             sizeof kPatience);
  setsockopt(connection_, SOL_SOCKET, SO_RCVTIMEO, &kPatience,
             sizeof kPatience);
  const auto* const address = reinterpret_cast<const sockaddr*>(&name);
  if (TEMP_FAILURE_RETRY(connect(connection_, address, sizeof name)) != 0) {
    return CannotShare(path, errno);
  }
  if (!Send(connection_, memfd)) {
    return errno == EPIPE ? TurnedAway() : CannotShare(path, errno);
  }
  const absl::Time end =
      jit::SteadyNow() + absl::DurationFromTimeval(kPatience);
  while (handle_.size() < kHandleBytes) {
    char part[kHandleBytes];
    const ssize_t count =
        recv(connection_, part, kHandleBytes - handle_.size(), 0);
    // Where there is a time-out no signal, such as a profiler's, restarts it.
    if (count < 0 && errno == EINTR && jit::SteadyNow() < end) continue;
    if (count <= 0) return TurnedAway();
    handle_.append(part, static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SharedMemory>> SharedMemory::Create(
    const std::string& target, int64_t bytes,
    const std::function<absl::StatusOr<int64_t>()>& limit,
    const std::function<absl::Status(const std::string& handle)>& create) {
  absl::string_view path = target;
  if (!absl::ConsumePrefix(&path, "unix:")) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the daemon is at ", target,
        "; allowed: unix:/path on this machine, because memory is shared by a "
        "Unix socket alone"));
  }
  absl::ConsumePrefix(&path, "//");
  if (bytes <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shared memory of ", bytes, " bytes; allowed: at least 1"));
  }
  // Before they are allocated: what the daemon would not take may be more than
  // this machine has.
  ASSIGN_OR_RETURN(const int64_t bytes_of_all, limit());
  RETURN_IF_ERROR(CheckRoom(bytes, bytes_of_all));
  std::unique_ptr<SharedMemory> memory(new SharedMemory);
  ASSIGN_OR_RETURN(const int memfd, memory->Map(bytes));
  const absl::Status given = memory->Give(absl::StrCat(path, ".memory"), memfd);
  close(memfd);
  RETURN_IF_ERROR(given);
  RETURN_IF_ERROR(create(memory->handle_));
  return memory;
}

SharedMemory::~SharedMemory() {
  if (connection_ >= 0) close(connection_);
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

}  // namespace gemmd::client
