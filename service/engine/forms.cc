#include "service/engine/forms.h"

#include <utility>

#include "jit/base/status.h"
#include "jit/plan/form.h"
#include "jit/source/instance.h"

namespace gemmd::engine {

absl::StatusOr<Forms::Kernel> Forms::KernelOf(jit::Form form,
                                              jit::DataType type,
                                              absl::Time deadline) {
  const std::pair<jit::Form, int> name(form, jit::BitsOf(type));
  {
    std::lock_guard lock(mutex_);
    const auto found = kernels_.find(name);
    if (found != kernels_.end()) return found->second;
  }
  ASSIGN_OR_RETURN(const jit::Instance instance,
                   jit::MakePrepareInstance(templates_, form, type));
  // Should the device refuse what the cache holds, it is made anew, once.
  absl::StatusOr<std::unique_ptr<device::Kernel>> kernel;
  for (int attempt = 0; attempt < 2; ++attempt) {
    ASSIGN_OR_RETURN(const jit::CacheResult cached,
                     cache_.Get(instance, deadline));
    kernel = device_.Load(*cached.kernel, jit::Plan());
    if (!absl::IsFailedPrecondition(kernel.status())) break;
    cache_.Quarantine(cached.kernel->key);
  }
  if (!kernel.ok()) return kernel.status();
  std::lock_guard lock(mutex_);
  // Another thread may have loaded it meanwhile: one is enough.
  return kernels_.try_emplace(name, *std::move(kernel)).first->second;
}

absl::StatusOr<Forms::Room> Forms::RoomFor(device::Lane& lane,
                                           const jit::MatrixLayout& stored,
                                           jit::Form form,
                                           absl::Time deadline) {
  Room room;
  ASSIGN_OR_RETURN(room.kernel, KernelOf(form, stored.type, deadline));
  ASSIGN_OR_RETURN(room.matrix, lane.Allocate(jit::FormLayout(stored, form)));
  return room;
}

absl::StatusOr<std::unique_ptr<device::Matrix>> Forms::Derive(
    device::Lane& lane, const device::Matrix& stored, jit::Form form,
    absl::Time deadline) {
  ASSIGN_OR_RETURN(Room room, RoomFor(lane, stored.layout(), form, deadline));
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
                                            int64_t version, jit::Form form,
                                            absl::Time deadline) {
  return kept.Get(form, version, [&]() -> absl::StatusOr<KeptForms::Derived> {
    KeptForms::Derived derived;
    derived.quota =
        QuotaFor(jit::FormLayout(stored.layout(), form).device_bytes());
    ASSIGN_OR_RETURN(derived.matrix, Derive(lane, stored, form, deadline));
    // Other lanes may read it as soon as they find it.
    RETURN_IF_ERROR(lane.Synchronize());
    return derived;
  });
}

}  // namespace gemmd::engine
