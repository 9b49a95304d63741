#include "service/rpc/gather.h"

#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "service/rpc/groups.h"

namespace gemmd::rpc {
namespace {

class Gather : public std::enable_shared_from_this<Gather> {
 public:
  Gather(engine::Engine& engine, std::vector<MatmulRequest> requests,
         engine::RequestContext context, engine::Done<ProductResults> done)
      : engine_(engine),
        context_(std::move(context)),
        requests_(std::move(requests)),
        results_(requests_.size()),
        done_(std::move(done)) {}

  // Begins what may begin. Whoever ends a product calls it again; it is one
  // loop and not a recursion, because a product may end while it begins.
  void Run() {
    std::unique_lock lock(mutex_);
    if (begins_) return;
    begins_ = true;
    while (status_.ok() && next_ < requests_.size() && running_ < AtOnce()) {
      const size_t i = next_++;
      ++running_;
      const bool first = !some_done_;
      lock.unlock();
      engine_.Multiply(std::move(requests_[i].product), requests_[i].device,
                       first ? context_ : context_.OfTheRest(),
                       [self = shared_from_this(),
                        i](absl::StatusOr<engine::ProductResult> result) {
                         self->Land(i, std::move(result));
                       });
      lock.lock();
    }
    begins_ = false;
    if (running_ > 0 || ended_) return;
    ended_ = true;
    lock.unlock();
    if (!status_.ok()) return done_(status_);
    done_(std::move(results_));
  }

 private:
  // Where what has begun is completed, whoever has gone, nothing waits beside
  // the first product: it would be given up though that one has run.
  int AtOnce() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return context_.is_repeatable && !some_done_ ? 1 : kGroupsAtOnce;
  }

  void Land(size_t i, absl::StatusOr<engine::ProductResult> result) {
    {
      std::lock_guard lock(mutex_);
      --running_;
      if (result.ok()) {
        some_done_ = true;
        results_[i] = *std::move(result);
      } else if (status_.ok()) {
        status_ = engine::OfGroup(i, result.status());
      }
    }
    Run();
  }

  engine::Engine& engine_;
  const engine::RequestContext context_;
  // Of each only the product that is begun is touched.
  std::vector<MatmulRequest> requests_;

  std::mutex mutex_;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // The first that has not begun.
  int running_ ABSL_GUARDED_BY(mutex_) = 0;  // Begun and not ended.
  bool begins_ ABSL_GUARDED_BY(mutex_) = false;  // Somebody is in Run's loop.
  bool some_done_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  ProductResults results_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // The first error.
  engine::Done<ProductResults> done_;
};

}  // namespace

void MultiplyAll(engine::Engine& engine, std::vector<MatmulRequest> requests,
                 engine::RequestContext context,
                 engine::Done<ProductResults> done) {
  std::vector<engine::Product> products;
  std::set<int> devices;
  for (MatmulRequest& request : requests) {
    products.push_back(std::move(request.product));
    devices.insert(request.device);
  }
  if (devices.size() == 1 && engine::AreIndependent(products) &&
      engine::AreShort(products)) {
    return engine.MultiplyTogether(std::move(products), *devices.begin(),
                                   std::move(context), std::move(done));
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].product = std::move(products[i]);
  }
  MultiplyOneByOne(engine, std::move(requests), std::move(context),
                   std::move(done));
}

void MultiplyOneByOne(engine::Engine& engine,
                      std::vector<MatmulRequest> requests,
                      engine::RequestContext context,
                      engine::Done<ProductResults> done) {
  std::make_shared<Gather>(engine, std::move(requests), std::move(context),
                           std::move(done))
      ->Run();
}

}  // namespace gemmd::rpc
