// Accepts connections and hands them to gRPC, whose own listener never comes
// back once the process has been out of file descriptors. Counts them, closes
// those that idle when there are too many, and knows when each one ends.
// Thread-safe.
#ifndef GEMMD_SERVICE_RPC_LISTENER_H_
#define GEMMD_SERVICE_RPC_LISTENER_H_

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/rpc/budget.h"
#include "service/rpc/connection.h"
#include "service/rpc/listening_socket.h"
#include "service/tls/context.h"
#include "service/tls/handshaker.h"

namespace gemmd::rpc {

class Listener {
 public:
  struct Options {
    int64_t max_connections = 0;
    // Gives gRPC a descriptor, which it closes.
    std::function<void(int fd)> serve;
    // A connection has ended; null: nobody asks.
    std::function<void(const std::string& identity)> ended;
    // What TCP connections shake hands by; null: plaintext.
    std::function<std::shared_ptr<const tls::Context>()> tls;
    // Calls of a connection must be ended; on the listener's thread.
    std::function<void()> overrun;
  };

  // Both budgets and the count outlive the connections. INVALID_ARGUMENT or
  // UNAVAILABLE as ListeningSocket::Bind.
  static absl::StatusOr<std::unique_ptr<Listener>> Create(
      const std::vector<std::string>& addresses, Options options,
      Budget& requests, Budget& responses, CallCount& calls);
  // After gRPC has closed its connections.
  ~Listener();

  const std::vector<std::string>& addresses() const { return addresses_; }

  // Begins to accept.
  void Start();
  // Accepts no more: clients are refused at once.
  void StopAccepting();

  // The connection that gRPC calls `peer`; null when it has ended.
  std::shared_ptr<Connection> Find(absl::string_view peer);
  int64_t connection_count();
  // Ends those whose clients do not take what was sent to them.
  void CutUntaken();

 private:
  Listener(std::vector<ListeningSocket> sockets, Options options,
           Budget& requests, Budget& responses, CallCount& calls);

  void Serve();
  void Accept(int listening_fd);
  // `tls` is null for plaintext.
  void Add(jit::UniqueFd fd, std::unique_ptr<tls::Session> tls);
  void AddShaken();
  void Remove(int grpc_fd);
  // Ends the connection that has been without calls for longest.
  bool MakeRoom();
  // Whether gRPC has come to so few of the ended connections that no more
  // should begin.
  bool LagsBehind();
  void Wake();

  const Options options_;
  Budget& requests_;
  Budget& responses_;
  CallCount& calls_;
  std::vector<std::string> addresses_;
  std::vector<ListeningSocket> sockets_;  // Of the thread, once it runs.
  jit::UniqueFd epoll_;
  jit::UniqueFd wake_;
  std::atomic<bool> accepting_ = true;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> overrun_ = false;
  int64_t next_id_ = 1;  // Of the thread.
  int next_fd_ = 0;      // Of the thread.

  // A socket that gRPC had, and may still have, under this number.
  struct Ended {
    int grpc_fd;
    ino_t socket;
    absl::Time since;
  };
  std::vector<Ended> ended_;  // Of the thread.

  struct Shaken {
    jit::UniqueFd fd;
    std::unique_ptr<tls::Session> tls;
  };

  std::mutex mutex_;
  // Those that have shaken hands since the thread last looked.
  std::vector<Shaken> shaken_ ABSL_GUARDED_BY(mutex_);
  // By the number under which gRPC has the socket.
  absl::flat_hash_map<int, std::shared_ptr<Connection>> connections_
      ABSL_GUARDED_BY(mutex_);

  std::unique_ptr<tls::Handshaker> handshaker_;  // Null: plaintext.
  std::thread thread_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_LISTENER_H_
