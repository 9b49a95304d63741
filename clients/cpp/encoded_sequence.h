// A Sequence that is run again and again, encoded once: what is written anew
// for each call of Client::Run are the bytes of operands.
//
//   const EncodedSequence encoded(sequence);
//   for (...) ASSIGN_OR_RETURN(SequenceResult result, client->Run(encoded));
//
// Immutable: any number of threads may run it.
#ifndef GEMMD_CLIENTS_CPP_ENCODED_SEQUENCE_H_
#define GEMMD_CLIENTS_CPP_ENCODED_SEQUENCE_H_

#include <grpcpp/support/slice.h>

#include <vector>

#include "absl/types/span.h"
#include "clients/cpp/product.h"

namespace gemmd::client {

// Of a SequenceRequest: what was encoded, and the bytes of an operand behind
// it, which stay where they are.
struct SequencePart {
  grpc::Slice encoded;
  absl::Span<const char> bytes;
};

class EncodedSequence {
 public:
  // What the steps read and write is where it says, for as long as this is
  // used; each run reads it anew. Its timeout and idempotency key do not count.
  explicit EncodedSequence(Sequence sequence);

 private:
  friend class Client;

  const Sequence sequence_;
  const std::vector<SequencePart> parts_;
};

}  // namespace gemmd::client

#endif  // GEMMD_CLIENTS_CPP_ENCODED_SEQUENCE_H_
