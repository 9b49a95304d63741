// What has been asked of a model, by whom. Thread-safe.
#ifndef GEMMD_SERVICE_MODELS_USAGE_H_
#define GEMMD_SERVICE_MODELS_USAGE_H_

#include <cstdint>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace gemmd::models {

// Of the inferences that succeeded, but for `failed`.
struct Counts {
  struct Sum {
    int64_t count = 0;
    absl::Duration time;

    void Add(absl::Duration one) {
      ++count;
      time += one;
    }
    void Add(const Sum& other) {
      count += other.count;
      time += other.time;
    }
  };

  void Add(const Counts& other);

  absl::Time last = absl::InfinitePast();
  Sum succeeded;
  Sum failed;
  Sum queue;    // Parts of `succeeded`.
  Sum input;    // Operands on their way to the device.
  Sum compute;  // Kernels: chosen, compiled, run.
  Sum output;   // Results on their way back.
};

class Usage {
 public:
  // `who` is a principal, of whom there are as many as the policy ever named;
  // "" where nobody says who he is.
  void Add(const std::string& who, const Counts& counts);
  Counts Of(const std::string& who) const;
  Counts All() const;

 private:
  mutable std::mutex mutex_;
  absl::flat_hash_map<std::string, Counts> counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::models

#endif  // GEMMD_SERVICE_MODELS_USAGE_H_
