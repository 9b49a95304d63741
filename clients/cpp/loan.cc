#include "clients/cpp/loan.h"

namespace gemmd::client {

Loan::~Loan() {
  std::unique_lock lock(mutex_);
  returned_.wait(lock, [this] { return lent_ == 0; });
}

grpc::Slice Loan::Lend(absl::Span<const char> bytes) {
  {
    std::lock_guard lock(mutex_);
    ++lent_;
  }
  // The transport reads only.
  return grpc::Slice(const_cast<char*>(bytes.data()), bytes.size(), &Return,
                     this);
}

void Loan::Return(void* loan) {
  Loan* const self = static_cast<Loan*>(loan);
  std::lock_guard lock(self->mutex_);
  --self->lent_;
  // Under the lock: the loan may be gone as soon as it is free.
  self->returned_.notify_all();
}

}  // namespace gemmd::client
