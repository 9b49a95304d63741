// The Unix sockets PATH.memory, by which clients give descriptors, or the byte
// kNoDescriptor in place of one, as regions.proto says. A region ends with the
// connection that it came by.
#ifndef GEMMD_SERVICE_RPC_REGION_DOOR_H_
#define GEMMD_SERVICE_RPC_REGION_DOOR_H_

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "jit/base/file.h"
#include "service/rpc/listening_socket.h"
#include "service/rpc/region/store.h"

namespace gemmd::rpc::region {

inline constexpr char kNoDescriptor = 'd';

class Door {
 public:
  struct Options {
    int max_connections = 256;  // And MostGuests().
    // From the connection on, until a descriptor has come, and until it has
    // become a region.
    absl::Duration gift_time = absl::Seconds(5);
    absl::Duration creation_time = absl::Seconds(10);
  };

  // Beside each Unix socket of `addresses`; null where that has none. `store`
  // outlives the door.
  static absl::StatusOr<std::unique_ptr<Door>> Open(
      const std::vector<std::string>& addresses, Store& store, Options options);
  // Ends all regions.
  ~Door();

 private:
  struct Guest {
    jit::UniqueFd fd;
    std::string handle;  // Empty: nothing has come.
    absl::Time since;
  };

  Door(std::vector<ListeningSocket> sockets, Store& store, Options options);

  void Serve();
  void Accept(int listening_fd);
  // Ends the oldest one of whom there is no region; false when there is none.
  bool MakeRoom();
  // Something has come from a guest, or it has gone.
  void Hear(int fd);
  void Dismiss(int fd);
  // Sends away those who are late, or whose region could not be created.
  // Whether any are left of whom that is not known.
  bool DismissLate();

  Store& store_;
  const Options options_;
  const std::vector<ListeningSocket> sockets_;
  const jit::UniqueFd epoll_;
  const jit::UniqueFd wake_;
  std::atomic<bool> stopping_ = false;
  std::map<int, Guest> guests_;  // Of the thread.
  std::thread thread_;
};

}  // namespace gemmd::rpc::region

#endif  // GEMMD_SERVICE_RPC_REGION_DOOR_H_
