// A memfd that a client has given, mapped. Nothing that the client does then
// takes its pages away: see proto/gemmd/v1/regions.proto.
#ifndef GEMMD_SERVICE_RPC_REGION_MAPPING_H_
#define GEMMD_SERVICE_RPC_REGION_MAPPING_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gemmd::rpc::region {

// The size of a memfd, for good. INVALID_ARGUMENT for what is no memfd of small
// pages, has no bytes, or cannot be sealed.
absl::StatusOr<int64_t> FixSize(int memfd);

// Thread-compatible.
class Mapping {
 public:
  // All `bytes` of a memfd whose size is fixed; its pages then are, too.
  // INVALID_ARGUMENT when they are not all allocated, or not to be written.
  static absl::StatusOr<Mapping> Of(int memfd, int64_t bytes);

  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();

  absl::Span<char> bytes() const { return bytes_; }

 private:
  explicit Mapping(absl::Span<char> bytes) : bytes_(bytes) {}

  absl::Span<char> bytes_;
};

}  // namespace gemmd::rpc::region

#endif  // GEMMD_SERVICE_RPC_REGION_MAPPING_H_
