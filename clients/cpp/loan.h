// Memory of the caller, lent to the transport without a copy.
//
// gRPC may still read a message after its call has ended (a write in flight
// when the deadline passes). The destructor of a Loan therefore waits until
// the transport has let go of every slice. Thread-compatible.
#ifndef GEMMD_CLIENTS_CPP_LOAN_H_
#define GEMMD_CLIENTS_CPP_LOAN_H_

#include <grpcpp/support/slice.h>

#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"

namespace gemmd::client {

class Loan {
 public:
  Loan() = default;
  ~Loan();
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  // A slice over `bytes`, which outlive this Loan.
  grpc::Slice Lend(absl::Span<const char> bytes);

 private:
  static void Return(void* loan);

  std::mutex mutex_;  // Known to sanitizers, unlike that of the libraries.
  std::condition_variable returned_;
  int lent_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gemmd::client

#endif  // GEMMD_CLIENTS_CPP_LOAN_H_
