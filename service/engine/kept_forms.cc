#include "service/engine/kept_forms.h"

#include <utility>

#include "jit/base/status.h"

namespace gemmd::engine {

absl::StatusOr<KeptForms::Shared> KeptForms::Get(
    jit::Form form, int64_t version,
    absl::FunctionRef<absl::StatusOr<Derived>()> derive) {
  const KeptPointer kept = Find(form, version);
  std::lock_guard lock(kept->deriving);
  if (kept->derived != nullptr) return kept->derived;
  absl::StatusOr<Derived> made = derive();
  if (!made.ok() || made->quota == nullptr) Forget(form, kept);
  RETURN_IF_ERROR(made.status());
  auto derived = std::make_shared<const Derived>(*std::move(made));
  if (derived->quota != nullptr) kept->derived = derived;
  return derived;
}

KeptForms::KeptPointer KeptForms::Find(jit::Form form, int64_t version) {
  KeptPointer old;  // Freed after the lock: its memory may serve for the new.
  std::lock_guard lock(mutex_);
  KeptPointer& kept = kept_[form];
  if (kept == nullptr || kept->version != version) {
    old = std::exchange(kept, std::make_shared<Kept>(version));
  }
  return kept;
}

void KeptForms::Forget(jit::Form form, const KeptPointer& kept) {
  std::lock_guard lock(mutex_);
  const auto found = kept_.find(form);
  if (found != kept_.end() && found->second == kept) kept_.erase(found);
}

bool KeptForms::MayHave(jit::Form form, int64_t version) {
  std::lock_guard lock(mutex_);
  const auto found = kept_.find(form);
  return found != kept_.end() && found->second->version == version;
}

void KeptForms::Clear() {
  std::map<jit::Form, KeptPointer> dropped;  // Freed after the lock.
  std::lock_guard lock(mutex_);
  dropped.swap(kept_);
}

}  // namespace gemmd::engine
