// What goes over the wire in one call: the messages of gemmd's API, made before
// anything is measured. The bare server gets the same ones.
#ifndef GEMMD_TESTS_BENCH_WIRE_MESSAGES_H_
#define GEMMD_TESTS_BENCH_WIRE_MESSAGES_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "clients/cpp/product.h"
#include "tests/bench/wire/way.h"

namespace gemmd::wire {

struct Messages {
  std::string method;
  std::vector<std::string> sent;
  int64_t returned_bytes = 0;  // At least.
  int64_t chunk_bytes = 0;     // Of those, in one message.

  int64_t longest() const;
  int64_t sent_bytes() const;
};

// `tensor` is the handle of one, for uploads and downloads; `product` has its
// operands' bytes, for the other ways.
Messages MessagesOf(Way way, const Load& load, const std::string& tensor,
                    const client::Product& product);

// No call takes longer.
inline constexpr absl::Duration kCallTimeout = absl::Minutes(1);

// Sends them and drops what comes back, as it is.
absl::Status Exchange(const std::shared_ptr<grpc::Channel>& channel,
                      const Messages& messages);
// The same with the bare server.
absl::Status ExchangeBare(const std::shared_ptr<grpc::Channel>& channel,
                          const Messages& messages);

}  // namespace gemmd::wire

#endif  // GEMMD_TESTS_BENCH_WIRE_MESSAGES_H_
