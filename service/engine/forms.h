// Derives the forms of operands (jit::Form) that the plans of one device ask
// for, and copies tensors of other devices to it. Thread-safe; the lanes are
// not shared.
#ifndef GEMMD_SERVICE_ENGINE_FORMS_H_
#define GEMMD_SERVICE_ENGINE_FORMS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "jit/cache/kernel_cache.h"
#include "jit/plan/plan.h"
#include "jit/source/template_library.h"
#include "service/device/device.h"
#include "service/engine/kept_forms.h"

namespace gemmd::engine {

class Forms {
 public:
  // A hold on that many bytes of the quota of tensors; null when it is used up.
  // Without this function, no forms are kept.
  using Reserve = std::function<std::shared_ptr<const void>(int64_t bytes)>;

  // All outlive this object. `number` is the device's index in the engine.
  Forms(device::Device& device, int number, jit::KernelCache& cache,
        const jit::TemplateLibrary& templates, Reserve reserve)
      : device_(device),
        number_(number),
        cache_(cache),
        templates_(templates),
        reserve_(std::move(reserve)) {}

  // Whether an operand has to be derived to be read in `form`.
  bool Derives(jit::Form form) const {
    return form != jit::Form::kStored && device_.description().derives_forms;
  }

  // What derives `form`, which Derives, of a matrix of layout `stored`, and
  // where to.
  struct Room {
    std::shared_ptr<const device::Kernel> kernel;  // Stays loaded.
    std::unique_ptr<device::Matrix> matrix;
  };
  absl::StatusOr<Room> RoomFor(device::Lane& lane,
                               const jit::MatrixLayout& stored, jit::Form form,
                               absl::Time deadline);
  // Enqueues the derivation of `form`, which Derives, of `stored`.
  absl::StatusOr<std::unique_ptr<device::Matrix>> Derive(
      device::Lane& lane, const device::Matrix& stored, jit::Form form,
      absl::Time deadline);

  // Of the device, in the engine.
  int number() const { return number_; }

  // `version` of a tensor whose matrix is `stored`, on another device, and
  // whose forms for this one are `kept`, copied here. Counts in `copies` what
  // was not there already. Ready for every lane.
  absl::StatusOr<KeptForms::Shared> CopyOf(device::Lane& lane, KeptForms& kept,
                                           const device::Matrix& stored,
                                           int64_t version, int& copies);
  // The form of `version` of the tensor whose matrix is `stored` and whose
  // forms are `kept`. Ready for every lane.
  absl::StatusOr<KeptForms::Shared> Of(device::Lane& lane, KeptForms& kept,
                                       const device::Matrix& stored,
                                       int64_t version, jit::Form form,
                                       absl::Time deadline);

 private:
  using Kernel = std::shared_ptr<const device::Kernel>;

  std::shared_ptr<const void> QuotaFor(int64_t bytes) const {
    return reserve_ ? reserve_(bytes) : nullptr;
  }
  absl::StatusOr<Kernel> KernelOf(jit::Form form, jit::DataType type,
                                  absl::Time deadline);

  device::Device& device_;
  const int number_;
  jit::KernelCache& cache_;
  const jit::TemplateLibrary& templates_;
  const Reserve reserve_;

  std::mutex mutex_;
  // By form and bits of an element: there are four.
  std::map<std::pair<jit::Form, int>, Kernel> kernels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_FORMS_H_
