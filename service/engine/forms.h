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
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "jit/plan/plan.h"
#include "service/device/device.h"
#include "service/engine/kept_forms.h"

namespace gemmd::engine {

// A form that is not stored, and the type of the elements that it is derived
// of.
struct DerivedForm {
  jit::Form form;
  jit::DataType type;
};
// Those that `plan` reads.
std::vector<DerivedForm> DerivedForms(const jit::Plan& plan);

class Forms {
 public:
  // A hold on that many bytes of the quota of tensors; null when it is used up.
  // Without this function, no forms are kept.
  using Reserve = std::function<std::shared_ptr<const void>(int64_t bytes)>;

  // `device`, which outlives this object, is `number` in the engine.
  Forms(const device::Device& device, int number, Reserve reserve)
      : device_(device), number_(number), reserve_(std::move(reserve)) {}

  // Whether an operand has to be derived to be read in `form`.
  bool Derives(jit::Form form) const {
    return form != jit::Form::kStored && device_.description().derives_forms;
  }

  // Those of `plan` whose kernels are not there: a lane waits for no compile,
  // so whoever plans for one adds them before.
  std::vector<DerivedForm> Missing(const jit::Plan& plan) const;
  // Stays loaded.
  void Add(const DerivedForm& form, std::unique_ptr<device::Kernel> kernel);

  // What derives `form`, which Derives, of a matrix of layout `stored`, and
  // where to. Its kernel is there.
  struct Room {
    const device::Kernel* kernel = nullptr;
    std::unique_ptr<device::Matrix> matrix;
  };
  absl::StatusOr<Room> RoomFor(device::Lane& lane,
                               const jit::MatrixLayout& stored, jit::Form form);
  // Enqueues the derivation of `form`, which Derives, of `stored`.
  absl::StatusOr<std::unique_ptr<device::Matrix>> Derive(
      device::Lane& lane, const device::Matrix& stored, jit::Form form);

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
                                       int64_t version, jit::Form form);

 private:
  using Name = std::pair<jit::Form, int>;  // And bits of an element.
  static Name NameOf(const DerivedForm& form) {
    return {form.form, jit::BitsOf(form.type)};
  }

  std::shared_ptr<const void> QuotaFor(int64_t bytes) const {
    return reserve_ ? reserve_(bytes) : nullptr;
  }

  const device::Device& device_;
  const int number_;
  const Reserve reserve_;

  mutable std::mutex mutex_;
  std::map<Name, std::unique_ptr<const device::Kernel>> kernels_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_FORMS_H_
