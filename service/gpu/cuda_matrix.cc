#include "service/gpu/cuda_matrix.h"

#include <algorithm>

#include "jit/base/status.h"
#include "service/gpu/event.h"

namespace gemmd::gpu {
namespace {

// Makes `home` wait for everything enqueued on `guest`.
absl::Status WaitFor(const Stream& guest, const Stream& home) {
  ASSIGN_OR_RETURN(const Event reached,
                   Event::Create(&guest.context(), Event::Timing::kOff));
  RETURN_IF_ERROR(reached.Record(guest));
  return reached.Delay(home);
}

}  // namespace

CudaMatrix::~CudaMatrix() {
  std::lock_guard lock(mutex_);
  for (const std::shared_ptr<Stream>& guest : guests_) {
    // Where an event is not to be had, waiting here serves too. An error of
    // that means a lost device, on which nothing runs any more.
    if (!WaitFor(*guest, buffer_.stream()).ok()) {
      guest->Synchronize().IgnoreError();
    }
  }
}

void CudaMatrix::UsedOn(const std::shared_ptr<Stream>& stream) const {
  if (borrowed_ || stream.get() == &buffer_.stream()) return;
  std::lock_guard lock(mutex_);
  if (std::find(guests_.begin(), guests_.end(), stream) == guests_.end()) {
    guests_.push_back(stream);
  }
}

}  // namespace gemmd::gpu
