#include "service/gpu/launch_order.h"

#include "jit/base/status.h"

namespace gemmd::gpu {

absl::Status LaunchOrder::InTurn(const Stream& stream,
                                 const std::shared_ptr<Event>& end,
                                 absl::FunctionRef<absl::Status()> launch) {
  std::lock_guard lock(mutex_);
  // A stream runs in order by itself.
  if (last_ != nullptr && last_ != end) RETURN_IF_ERROR(last_->Delay(stream));
  RETURN_IF_ERROR(launch());
  RETURN_IF_ERROR(end->Record(stream));
  last_ = end;
  return absl::OkStatus();
}

}  // namespace gemmd::gpu
