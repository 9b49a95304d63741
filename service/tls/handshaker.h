// Shakes hands with those who have just connected, on a thread of its own: it
// is work of about a millisecond, and some never finish. Those that have been
// at it for too long are closed, and so is, when there are too many, the one
// that has been for longest: an honest client is through in moments.
// Thread-safe.
#ifndef GEMMD_SERVICE_TLS_HANDSHAKER_H_
#define GEMMD_SERVICE_TLS_HANDSHAKER_H_

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "jit/base/file.h"
#include "service/tls/context.h"
#include "service/tls/session.h"

namespace gemmd::tls {

class Handshaker {
 public:
  struct Options {
    int64_t max_pending = 256;
    absl::Duration timeout = absl::Seconds(10);
    // Both on the thread of the handshaker. `failed` gets why, in a few words.
    std::function<void(jit::UniqueFd, std::unique_ptr<Session>)> done;
    std::function<void(int fd, const std::string& why)> failed;
  };

  explicit Handshaker(Options options);
  // Closes those that are under way.
  ~Handshaker();

  // `fd` is a connected socket that does not block.
  void Add(jit::UniqueFd fd, std::shared_ptr<const Context> context);

 private:
  struct Pending {
    jit::UniqueFd fd;
    std::unique_ptr<Session> session;
    absl::Time since;
    std::string peer;       // Its address, or its network's.
    bool has_sent = false;  // Anything.
  };
  using Place = std::list<Pending>::iterator;

  void Serve();
  void Begin(std::list<Pending> added);
  void Step(int fd);
  void Fail(Place place, const std::string& why);
  // Which to close when there are too many: of the peer that has most, the one
  // that has been for longest without having sent anything, or at all. An
  // honest client has few, begins at once and is through in moments.
  Place Spare();
  // Fails those whose time is up; until when the next one's is, in ms.
  int FailLate();
  void Wake();

  const Options options_;
  jit::UniqueFd epoll_;
  jit::UniqueFd wake_;

  std::mutex mutex_;
  std::list<Pending> new_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // Of the thread; oldest first.
  std::list<Pending> pending_;
  absl::flat_hash_map<int, Place> by_fd_;

  std::thread thread_;  // Last: it uses the members above.
};

}  // namespace gemmd::tls

#endif  // GEMMD_SERVICE_TLS_HANDSHAKER_H_
