// Forms of one tensor (jit::Form) for the products of one device, kept so that
// each is derived once for each version of the tensor. That in the form kStored
// is a copy, of a tensor of another device. Thread-safe; who asks for no form
// that is being derived waits for no device.
#ifndef GEMMD_SERVICE_ENGINE_KEPT_FORMS_H_
#define GEMMD_SERVICE_ENGINE_KEPT_FORMS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "jit/plan/plan.h"
#include "service/device/device.h"

namespace gemmd::engine {

class KeptForms {
 public:
  // Elements in a form, and a hold on the bytes that they count for. Those
  // that could have none are not kept.
  struct Derived {
    std::shared_ptr<const void> quota;  // Given back after the memory.
    std::unique_ptr<device::Matrix> matrix;
  };
  using Shared = std::shared_ptr<const Derived>;

  // The form of `version` of the tensor, which nobody writes meanwhile.
  // `derive`, if it is needed, returns when the device is done; those who ask
  // for the form at the same time wait for it.
  absl::StatusOr<Shared> Get(
      jit::Form form, int64_t version,
      absl::FunctionRef<absl::StatusOr<Derived>()> derive);

  // Whether `form` of `version` is there, or on its way.
  bool MayHave(jit::Form form, int64_t version);

  // Forgets all. Products that use a form, or wait for one, keep it until they
  // end.
  void Clear();

 private:
  // Of one version.
  struct Kept {
    explicit Kept(int64_t version) : version(version) {}

    const int64_t version;
    std::mutex deriving;                       // Taken before mutex_.
    Shared derived ABSL_GUARDED_BY(deriving);  // Null until it is there.
  };
  using KeptPointer = std::shared_ptr<Kept>;

  // What is kept of `form`, or is to be.
  KeptPointer Find(jit::Form form, int64_t version);
  void Forget(jit::Form form, const KeptPointer& kept);

  std::mutex mutex_;
  std::map<jit::Form, KeptPointer> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_KEPT_FORMS_H_
