// A gRPC server that does nothing but what any server of matrices has to: it
// drops the slices that come, and then sends one slice again and again. It
// serves as gemmd does: raw messages by the generic service, with the same
// arguments, on as many completion queues.
#ifndef GEMMD_TESTS_BENCH_WIRE_BARE_SERVER_H_
#define GEMMD_TESTS_BENCH_WIRE_BARE_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace gemmd::wire {

// Of the matrices' bytes.
inline constexpr char kFill = '\x3c';

// What a call is to do.
struct BareWork {
  int64_t awaited_bytes = 0;   // Of messages. DATA_LOSS when others come.
  int64_t returned_bytes = 0;  // Sent once the client has sent all of his.
  int64_t chunk_bytes = 0;     // Of these, in one message.
};
// Tells the bare server.
void AskBare(const BareWork& work, grpc::ClientContext& context);

// Listens at `address`, writes its port to standard output, a line, and serves
// until standard input ends. `loops` 0: as many as gemmd by default.
absl::Status ServeBare(const std::string& address, int loops);

}  // namespace gemmd::wire

#endif  // GEMMD_TESTS_BENCH_WIRE_BARE_SERVER_H_
