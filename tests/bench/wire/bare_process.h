// The bare server in a process of its own, which ends with this one.
#ifndef GEMMD_TESTS_BENCH_WIRE_BARE_PROCESS_H_
#define GEMMD_TESTS_BENCH_WIRE_BARE_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace gemmd::wire {

class BareProcess {
 public:
  // Listens at a Unix socket, or on loopback.
  static absl::StatusOr<std::unique_ptr<BareProcess>> Start(bool unix_socket,
                                                            int loops);
  ~BareProcess();
  BareProcess(const BareProcess&) = delete;

  // For clients of gRPC.
  const std::string& address() const { return address_; }

 private:
  BareProcess(pid_t pid, int input_fd) : pid_(pid), input_fd_(input_fd) {}

  const pid_t pid_;
  const int input_fd_;  // It ends when this is closed.
  std::string address_;
};

}  // namespace gemmd::wire

#endif  // GEMMD_TESTS_BENCH_WIRE_BARE_PROCESS_H_
