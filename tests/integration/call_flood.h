// A connection that has as many calls of one element's product on the way as it
// is asked to, faster than any library: it sends and takes them in bulk.
// Thread-compatible.
#ifndef GEMMD_TESTS_INTEGRATION_CALL_FLOOD_H_
#define GEMMD_TESTS_INTEGRATION_CALL_FLOOD_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "jit/base/file.h"

namespace gemmd::testing {

class CallFlood {
 public:
  // `address` is "127.0.0.1:50051".
  CallFlood(const std::string& address, int calls);

  // Begins as many as are missing, and takes what comes within `patience`.
  // False when the connection has ended.
  bool Go(absl::Duration patience);
  int64_t answered() const { return answered_; }

 private:
  bool Send(const std::string& bytes);
  // Counts answers, and drops frames that are there.
  bool TakeFrames();

  const int calls_;
  const std::string headers_;
  const std::string message_;
  jit::UniqueFd fd_;
  uint32_t next_stream_ = 1;
  int64_t begun_ = 0;
  int64_t answered_ = 0;
  std::string received_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_CALL_FLOOD_H_
