// Bytes of received messages that the daemon holds. Thread-safe.
//
// A message's size is known only once it has been read, so admission looks at
// what is held already: the limit may be passed by one message per reader.
#ifndef GEMMD_SERVICE_RPC_IN_FLIGHT_BYTES_H_
#define GEMMD_SERVICE_RPC_IN_FLIGHT_BYTES_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gemmd::rpc {

class InFlightBytes {
 public:
  explicit InFlightBytes(int64_t limit) : limit_(limit) {}

  // Whether another message may be read: RESOURCE_EXHAUSTED with the limit.
  absl::Status Check() const {
    const int64_t held = held_;
    if (held < limit_) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        "the daemon holds ", held, " bytes of requests; the limit is ", limit_,
        ". Try again later."));
  }

  // The bytes of one call, given back when it ends.
  class Hold {
   public:
    explicit Hold(InFlightBytes& all) : all_(all) {}
    Hold(const Hold&) = delete;
    ~Hold() { Set(0); }

    void Set(int64_t bytes) {
      all_.held_ += bytes - bytes_;
      bytes_ = bytes;
    }

   private:
    InFlightBytes& all_;
    int64_t bytes_ = 0;
  };

 private:
  const int64_t limit_;
  std::atomic<int64_t> held_ = 0;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_IN_FLIGHT_BYTES_H_
