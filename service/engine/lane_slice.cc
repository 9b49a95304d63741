#include "service/engine/lane_slice.h"

#include <future>
#include <memory>
#include <utility>
#include <variant>

#include "service/engine/lane_task.h"
#include "service/engine/once.h"

namespace gemmd::engine {
namespace {

// A millisecond or two of a device; see cost.h.
constexpr int64_t kSliceCycles = 3400000;

class SliceTask final : public LaneTask {
 public:
  SliceTask(ServedDevice& served, RequestContext context,
            absl::AnyInvocable<absl::Status()> work, Done<std::monostate> done)
      : LaneTask(std::move(context), served.health),
        served_(served),
        work_(std::move(work)),
        done_(std::move(done)) {
    set_cost(kSliceCycles);
  }

  bool alone() const override { return true; }
  bool Run(device::Lane&) override {
    const absl::Status status = served_.Note(work_());
    if (status.ok()) {
      done_.Answer(std::monostate());
    } else {
      done_.Answer(status);
    }
    return false;
  }
  void Abandon(const absl::Status& why) override { done_.Answer(why); }

 private:
  void Refuse(const absl::Status& why) override { done_.Answer(why); }

  ServedDevice& served_;
  absl::AnyInvocable<absl::Status()> work_;
  Once<std::monostate> done_;
};

}  // namespace

absl::Status RunOnLane(ServedDevice& served, RequestContext context,
                       absl::AnyInvocable<absl::Status()> work) {
  auto promise = std::make_shared<std::promise<absl::Status>>();
  std::future<absl::Status> end = promise->get_future();
  served.products->Submit(std::make_shared<SliceTask>(
      served, std::move(context), std::move(work),
      [promise](const absl::StatusOr<std::monostate>& result) {
        promise->set_value(result.status());
      }));
  return end.get();
}

}  // namespace gemmd::engine
