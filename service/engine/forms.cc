#include "service/engine/forms.h"

#include <utility>

#include "jit/base/status.h"
#include "jit/plan/form.h"

namespace gemmd::engine {

std::vector<DerivedForm> DerivedForms(const jit::Plan& plan) {
  const jit::Family& family = plan.family;
  const jit::Form x_form = plan.exchanged ? plan.b_form : plan.a_form;
  const jit::Form y_form = plan.exchanged ? plan.a_form : plan.b_form;
  std::vector<DerivedForm> derived;
  const auto add = [&](jit::Form form, jit::DataType type) {
    if (form == jit::Form::kStored) return;
    const bool split = form == jit::Form::kSplit;
    derived.push_back({form, split ? jit::DataType::kF32 : type});
  };
  add(x_form, family.widening ? family.widening->from : family.instruction.x);
  add(y_form, family.instruction.y);
  return derived;
}

std::vector<DerivedForm> Forms::Missing(const jit::Plan& plan) const {
  if (!device_.description().derives_forms) return {};
  std::map<Name, DerivedForm> missing;
  std::lock_guard lock(mutex_);
  for (const DerivedForm& form : DerivedForms(plan)) {
    const Name name = NameOf(form);
    if (!kernels_.contains(name)) missing.emplace(name, form);
  }
  std::vector<DerivedForm> forms;
  for (const auto& [name, form] : missing) forms.push_back(form);
  return forms;
}

void Forms::Add(const DerivedForm& form,
                std::unique_ptr<device::Kernel> kernel) {
  std::lock_guard lock(mutex_);
  // Another thread may have loaded it meanwhile: one is enough.
  kernels_.try_emplace(NameOf(form), std::move(kernel));
}

absl::StatusOr<Forms::Room> Forms::RoomFor(device::Lane& lane,
                                           const jit::MatrixLayout& stored,
                                           jit::Form form) {
  Room room;
  {
    std::lock_guard lock(mutex_);
    const auto found = kernels_.find(NameOf({form, stored.type}));
    if (found == kernels_.end()) {
      return absl::InternalError("the kernel of a form was not loaded");
    }
    room.kernel = found->second.get();
  }
  ASSIGN_OR_RETURN(room.matrix, lane.Allocate(jit::FormLayout(stored, form)));
  return room;
}

absl::StatusOr<std::unique_ptr<device::Matrix>> Forms::Derive(
    device::Lane& lane, const device::Matrix& stored, jit::Form form) {
  ASSIGN_OR_RETURN(Room room, RoomFor(lane, stored.layout(), form));
  RETURN_IF_ERROR(lane.Prepare(form, *room.kernel, stored, *room.matrix));
  return std::move(room.matrix);
}

absl::StatusOr<KeptForms::Shared> Forms::CopyOf(device::Lane& lane,
                                                KeptForms& kept,
                                                const device::Matrix& stored,
                                                int64_t version, int& copies) {
  const auto copy = [&]() -> absl::StatusOr<KeptForms::Derived> {
    KeptForms::Derived derived;
    derived.quota = QuotaFor(stored.layout().device_bytes());
    ASSIGN_OR_RETURN(derived.matrix, lane.Allocate(stored.layout()));
    RETURN_IF_ERROR(lane.CopyFromPeer(stored, *derived.matrix));
    RETURN_IF_ERROR(lane.Synchronize());
    ++copies;
    return derived;
  };
  return kept.Get(jit::Form::kStored, version, copy);
}

absl::StatusOr<KeptForms::Shared> Forms::Of(device::Lane& lane, KeptForms& kept,
                                            const device::Matrix& stored,
                                            int64_t version, jit::Form form) {
  return kept.Get(form, version, [&]() -> absl::StatusOr<KeptForms::Derived> {
    KeptForms::Derived derived;
    derived.quota =
        QuotaFor(jit::FormLayout(stored.layout(), form).device_bytes());
    ASSIGN_OR_RETURN(derived.matrix, Derive(lane, stored, form));
    // Other lanes may read it as soon as they find it.
    RETURN_IF_ERROR(lane.Synchronize());
    return derived;
  });
}

}  // namespace gemmd::engine
