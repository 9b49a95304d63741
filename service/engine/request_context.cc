#include "service/engine/request_context.h"

#include "absl/strings/str_cat.h"
#include "jit/base/steady_time.h"

namespace gemmd::engine {

RequestContext RequestContext::OfTheRest() const {
  RequestContext rest = *this;
  if (is_repeatable) {
    rest.deadline = absl::InfiniteFuture();
    rest.cancelled = nullptr;
  }
  return rest;
}

absl::Status RequestContext::Check(absl::string_view step) const {
  if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed)) {
    return absl::CancelledError(absl::StrCat("cancelled before ", step));
  }
  if (deadline != absl::InfiniteFuture() && jit::SteadyNow() >= deadline) {
    return absl::DeadlineExceededError(
        absl::StrCat("the deadline passed before ", step));
  }
  return absl::OkStatus();
}

}  // namespace gemmd::engine
