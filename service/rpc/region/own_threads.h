// Threads for work that may stand still for as long as a client likes. Each
// does one thing, so that nobody else waits for it, and nobody waits for its
// end, neither this nor the end of the process: work owns what it uses.
// Thread-safe.
#ifndef GEMMD_SERVICE_RPC_REGION_OWN_THREADS_H_
#define GEMMD_SERVICE_RPC_REGION_OWN_THREADS_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

namespace gemmd::rpc::region {

class OwnThreads {
 public:
  explicit OwnThreads(int most) : counts_(std::make_shared<Counts>(most)) {}

  // Runs `work` on a new thread. RESOURCE_EXHAUSTED when there are too many, or
  // three quarters of them for `identity`.
  absl::Status Run(const std::string& identity,
                   absl::AnyInvocable<void()> work);

 private:
  struct Counts {
    explicit Counts(int most) : most(most) {}

    const int most;
    std::mutex mutex;
    int all ABSL_GUARDED_BY(mutex) = 0;
    std::map<std::string, int> of ABSL_GUARDED_BY(mutex);
  };

  static absl::Status Take(Counts& counts, const std::string& identity);
  static void GiveBack(Counts& counts, const std::string& identity);

  const std::shared_ptr<Counts> counts_;
};

}  // namespace gemmd::rpc::region

#endif  // GEMMD_SERVICE_RPC_REGION_OWN_THREADS_H_
