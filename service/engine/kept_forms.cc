#include "service/engine/kept_forms.h"

#include <utility>

#include "jit/base/status.h"

namespace gemmd::engine {

absl::StatusOr<KeptForms::Shared> KeptForms::Get(
    jit::Form form, int64_t version,
    absl::FunctionRef<absl::StatusOr<Derived>()> derive) {
  std::lock_guard lock(mutex_);
  const auto found = kept_.find(form);
  if (found != kept_.end()) {
    if (found->second.version == version) return found->second.derived;
    kept_.erase(found);  // Its memory may serve for the new one.
  }
  ASSIGN_OR_RETURN(Derived made, derive());
  const bool keep = made.quota != nullptr;
  auto derived = std::make_shared<const Derived>(std::move(made));
  if (keep) kept_[form] = {.version = version, .derived = derived};
  return derived;
}

bool KeptForms::MayHave(jit::Form form, int64_t version) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return true;
  const auto found = kept_.find(form);
  return found != kept_.end() && found->second.version == version;
}

void KeptForms::Clear() {
  std::map<jit::Form, Kept> dropped;  // Freed after the lock.
  std::lock_guard lock(mutex_);
  dropped.swap(kept_);
}

}  // namespace gemmd::engine
