#include "clients/cpp/loan.h"

namespace gemmd::client {

Loan::~Loan() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](int* lent) { return *lent == 0; }, &lent_));
}

grpc::Slice Loan::Lend(absl::Span<const char> bytes) {
  {
    absl::MutexLock lock(&mutex_);
    ++lent_;
  }
  // The transport reads only.
  return grpc::Slice(const_cast<char*>(bytes.data()), bytes.size(), &Return,
                     this);
}

void Loan::Return(void* loan) {
  Loan* const self = static_cast<Loan*>(loan);
  absl::MutexLock lock(&self->mutex_);
  --self->lent_;
}

}  // namespace gemmd::client
