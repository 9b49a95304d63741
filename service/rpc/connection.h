// One connection of a client: who it is, what it holds, what has arrived on
// it. Shared by the listener and by its calls. Thread-safe.
//
// Bytes of messages that are not complete are held by the connection, as nobody
// else can see them. They are covered by what its reading calls have announced,
// then by the budget of requests, a step at a time, and never exceed what its
// calls may read. A complete message is its call's; how much gRPC takes before
// the call asks for it, flow control bounds (kCallAllowanceBytes), and what
// that keeps is counted.
#ifndef GEMMD_SERVICE_RPC_CONNECTION_H_
#define GEMMD_SERVICE_RPC_CONNECTION_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "jit/base/file.h"
#include "service/rpc/allowance.h"
#include "service/rpc/budget.h"
#include "service/rpc/call_count.h"
#include "service/rpc/frame_counter.h"
#include "service/rpc/frame_reader.h"
#include "service/rpc/half_messages.h"
#include "service/rpc/traffic.h"
#include "service/rpc/unread_bytes.h"
#include "service/tls/peer_certificate.h"

namespace gemmd::rpc {

// What every call may hold besides the budgets: a small message, or as much
// as gRPC takes from a stream that nobody reads.
inline constexpr int64_t kCallAllowanceBytes = 64 << 10;

class Connection final : public Traffic {
 public:
  struct Socket {
    jit::UniqueFd fd;  // Of the socket that gRPC uses under another number.
    std::string peer;  // "ipv4:127.0.0.1:4242", "unix:7".
    std::optional<uid_t> user;          // At the other end of a Unix socket.
    std::unique_ptr<tls::Session> tls;  // Null: plaintext.
  };

  // Both budgets and the count outlive the connection. `overrun` is called, on
  // a thread of gRPC, when calls must be ended because too much has arrived.
  Connection(int64_t id, Socket socket, Budget& requests, Budget& responses,
             CallCount& all_calls, std::function<void()> overrun);
  Connection(const Connection&) = delete;
  ~Connection();

  // Tells it from all others of the daemon's life.
  const std::string& identity() const { return identity_; }
  const std::string& peer() const { return peer_; }
  std::optional<uid_t> user() const { return user_; }
  // Null when the client has shown none.
  tls::PeerCertificate* certificate() const {
    return tls() == nullptr ? nullptr : tls()->peer();
  }
  int fd() const { return fd_.get(); }
  Budget& requests() { return requests_; }
  Budget& responses() { return responses_; }
  Budget::Account& request_account() { return request_account_; }
  Budget::Account& response_account() { return response_account_; }

  // From now on `account`, of the first principal that calls by the connection,
  // holds what arrives unannounced.
  void CountFor(std::shared_ptr<Budget::Account> account);

  // Calls that run; those that wait for their turn are queued first. Opening
  // one returns how many count, with it: those without an answer. Of answers
  // that are not taken gRPC keeps a client from having more, once it holds him
  // to its limits; until then all count.
  void QueueCall();
  int64_t OpenCall();
  void AnswerCall() { calls_.Answer(); }
  void CloseCall();
  int64_t calls() const { return calls_.all(); }
  bool idle() const { return calls() + queued_calls_ == 0; }
  bool used() const { return used_; }
  // Steady nanoseconds of the last change of calls.
  int64_t last_change_ns() const { return last_change_ns_; }

  // A call begins, and ends, to read a message of at most `limit` bytes, for
  // which `announced` are held already.
  void BeginRead(int64_t limit, int64_t announced);
  void EndRead(int64_t limit, int64_t announced);
  // More has arrived than its calls may read: those that read must end.
  bool overrun() const { return overrun_.load(std::memory_order_relaxed); }

  // The stream that began last; what is half there of the messages of those
  // that began no later than `last`.
  uint32_t last_stream();
  int64_t half_bytes(uint32_t last);

  // Whether bytes have come that the daemon has not read; whether some that it
  // has sent are not taken.
  bool unread() const;
  bool untaken() const;
  // Ends the connection, with all its calls.
  void Cut();

  // Frames that bring nothing and may come at once, and of these, pings and
  // resets.
  static constexpr int64_t kMostIdleFrames = 10'000;
  static constexpr int64_t kMostPings = 32;
  static constexpr int64_t kMostResets = 1'000;

 private:
  void LookAtReceived(absl::Span<const char> bytes) override;
  void LookAtSent(absl::Span<const char> bytes) override;
  // False when too many frames have come that bring nothing.
  bool Afford(const FrameCounter::Frames& frames);
  // False when too many calls have begun.
  bool Admit(int64_t begun);
  // What may be there without being held.
  int64_t FreeBytes() const;
  // Whether nothing is half there that calls which read do not account for.
  bool HasLeft() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return half_.bytes() <= readable_bytes_ + FreeBytes();
  }
  // What is half there and neither announced, free nor held.
  int64_t Missing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After more has come: holds what is missing, or ends the calls that read;
  // the connection, where calls leave unread what keeps too much.
  void Cover() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Budget::Account& grown_account() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return counted_for_ == nullptr ? request_account_ : *counted_for_;
  }
  void Shrink(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string identity_;
  const std::string peer_;
  const std::optional<uid_t> user_;
  const jit::UniqueFd fd_;  // TLS, of the base, needs it no more at its end.
  Budget& requests_;
  Budget& responses_;
  CallCount& all_calls_;
  const std::function<void()> on_overrun_;
  Budget::Account request_account_;
  Budget::Account response_account_;

  OwnCalls calls_;
  std::atomic<bool> held_to_limits_ = false;
  Tally waiting_calls_;  // Begun, and not handed out by gRPC.
  std::atomic<int64_t> queued_calls_ = 0;  // Handed out, and not opened.
  std::atomic<bool> used_ = false;
  std::atomic<int64_t> last_change_ns_;
  std::atomic<bool> overrun_ = false;

  // Of the thread that writes.
  FrameReader sent_frames_{0};

  // Of the thread that reads.
  FrameReader received_frames_{FrameReader::kClientPrefaceBytes};
  FrameCounter counter_;
  int64_t emptied_ = 0;  // How often no call waited when it last looked.
  int64_t begun_ = 0;    // Calls.
  Allowance idle_frames_;
  Allowance pings_;
  Allowance resets_;

  std::mutex mutex_;
  HalfMessages half_ ABSL_GUARDED_BY(mutex_);
  UnreadBytes unread_ ABSL_GUARDED_BY(mutex_);
  int64_t reads_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t readable_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // Limits of reads.
  // Limits of reads that ended before their messages were there: until gRPC has
  // ended their streams, too, what comes on these is no fault of others.
  int64_t leaving_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t announced_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // Held by reads.
  std::shared_ptr<Budget::Account> counted_for_ ABSL_GUARDED_BY(mutex_);
  int64_t grown_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // Held for the rest.
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_CONNECTION_H_
