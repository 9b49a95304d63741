// Memory that this process and a daemon of its machine share: operands and
// results that lie there do not travel (proto/gemmd/v1/regions.proto).
#ifndef GEMMD_CLIENTS_CPP_SHARED_MEMORY_H_
#define GEMMD_CLIENTS_CPP_SHARED_MEMORY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gemmd::client {

// Made by Client::Share, which it outlives. Thread-compatible.
class SharedMemory {
 public:
  // Gives memory of `bytes`, which are zero, to the daemon at `target`, a Unix
  // socket. `limit` asks it for the bytes that regions of all clients may have,
  // `create` makes a region of the handle that it answers with.
  static absl::StatusOr<std::unique_ptr<SharedMemory>> Create(
      const std::string& target, int64_t bytes,
      const std::function<absl::StatusOr<int64_t>()>& limit,
      const std::function<absl::Status(const std::string& handle)>& create);
  SharedMemory(const SharedMemory&) = delete;
  // The daemon is done with it when calls that name it have returned.
  ~SharedMemory();

  absl::Span<char> bytes() const { return bytes_; }
  const std::string& handle() const { return handle_; }

 private:
  SharedMemory() = default;

  absl::StatusOr<int> Map(int64_t bytes);
  absl::Status Give(const std::string& path, int memfd);

  absl::Span<char> bytes_;
  int connection_ = -1;  // The region lives as long as this.
  std::string handle_;
};

}  // namespace gemmd::client

#endif  // GEMMD_CLIENTS_CPP_SHARED_MEMORY_H_
