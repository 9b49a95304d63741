// A client that shares memory, for tests.
#ifndef GEMMD_TESTS_SERVICE_RPC_REGION_GIVER_H_
#define GEMMD_TESTS_SERVICE_RPC_REGION_GIVER_H_

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "jit/base/file.h"

namespace gemmd::testing {

// As regions.proto wants it, unless `flags` or `allocated` say otherwise.
class GivenMemory {
 public:
  explicit GivenMemory(size_t size, unsigned flags = MFD_ALLOW_SEALING,
                       bool allocated = true)
      : fd_(memfd_create("test", MFD_CLOEXEC | flags)), size_(size) {
    EXPECT_TRUE(fd_.ok());
    EXPECT_EQ(ftruncate(fd_.get(), static_cast<off_t>(size)), 0);
    if (size == 0 || (flags & MFD_HUGETLB) != 0) return;
    if (allocated) {
      EXPECT_EQ(posix_fallocate(fd_.get(), 0, static_cast<off_t>(size)), 0);
    }
    void* const mapped =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    EXPECT_NE(mapped, MAP_FAILED);
    bytes_ = static_cast<char*>(mapped);
  }
  GivenMemory(const GivenMemory&) = delete;
  ~GivenMemory() {
    if (bytes_ != nullptr) munmap(bytes_, size_);
  }

  int fd() const { return fd_.get(); }
  char* bytes() const { return bytes_; }
  size_t size() const { return size_; }
  jit::UniqueFd Duplicate() const { return jit::UniqueFd(dup(fd_.get())); }

 private:
  const jit::UniqueFd fd_;
  const size_t size_;
  char* bytes_ = nullptr;
};

// A connection to PATH.memory.
class Giver {
 public:
  explicit Giver(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = {}};
    path.copy(name.sun_path, sizeof name.sun_path - 1);
    EXPECT_EQ(
        connect(socket_.get(), reinterpret_cast<sockaddr*>(&name), sizeof name),
        0)
        << path;
    const timeval limit = {.tv_sec = 30, .tv_usec = 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }

  void Send(const std::string& bytes, const std::vector<int>& fds = {}) {
    iovec part = {.iov_base = const_cast<char*>(bytes.data()),
                  .iov_len = bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(253 * sizeof(int))] = {};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
    }
    sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  }

  // The handle; what has come of it when the other side closes.
  std::string Receive() {
    std::string got;
    char byte;
    while (got.size() < 32 && recv(socket_.get(), &byte, 1, 0) == 1) {
      got += byte;
    }
    return got;
  }

  std::string Give(const GivenMemory& memory) {
    Send("m", {memory.fd()});
    return Receive();
  }

  // Of memory that has another name.
  std::string GiveNone() {
    Send("d");
    return Receive();
  }

  // Whether the other side has closed; waits for it.
  bool IsClosed() {
    char byte;
    const ssize_t count = recv(socket_.get(), &byte, 1, 0);
    return count == 0 || (count < 0 && errno == ECONNRESET);
  }

  // Whether it has said nothing yet.
  bool IsSilent() const {
    char byte;
    return recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           errno == EAGAIN;
  }

  void Close() { socket_.Reset(); }

  int fd() const { return socket_.get(); }

 private:
  jit::UniqueFd socket_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_SERVICE_RPC_REGION_GIVER_H_
