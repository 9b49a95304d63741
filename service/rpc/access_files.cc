#include "service/rpc/access_files.h"

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "service/engine/tensor_store.h"
#include "service/log/log.h"

namespace gemmd::rpc {
namespace {

// How late it may be noticed that a file has changed.
constexpr absl::Duration kReloadInterval = absl::Seconds(1);

}  // namespace

absl::Status AccessFiles::Open(const tls::Files& tls,
                               const identity::Files& identity) {
  if (!tls.certificate.empty()) {
    ASSIGN_OR_RETURN(runtime_.tls, tls::Keeper::Open(tls));
  }
  if (!identity.policy.empty()) {
    ASSIGN_OR_RETURN(runtime_.gate, identity::Gate::Open(identity));
    ApplyPolicy();
  }
  if (runtime_.tls == nullptr && runtime_.gate == nullptr) {
    return absl::OkStatus();
  }
  reload_ =
      std::make_unique<engine::Periodic>(kReloadInterval, [this] { Reload(); });
  return absl::OkStatus();
}

void AccessFiles::ApplyPolicy() {
  const auto policy = runtime_.gate->policy();
  absl::flat_hash_map<std::string, engine::TensorStore::Grant> grants;
  for (const auto& [name, principal] : policy->principals()) {
    grants[name] = {.max_bytes = principal->max_tensor_bytes,
                    .max_tensors = principal->max_tensors};
    const auto tenant = runtime_.TenantOf(name);
    const int64_t quota = principal->max_in_flight_bytes;
    runtime_.requests.SetQuota(tenant->requests, quota);
    runtime_.responses.SetQuota(tenant->responses, quota);
  }
  runtime_.engine.tensors().SetGrants(std::move(grants));
  log::Write(log::Level::kInfo, "policy",
             {{"principals", policy->principals().size()}});
}

void AccessFiles::Reload() {
  const auto reload = [](auto& files, absl::string_view what) {
    if (files == nullptr) return false;
    const absl::StatusOr<bool> changed = files->Reload();
    if (!changed.ok()) {
      log::Write(log::Level::kError, "reload_refused",
                 {{"what", what}, {"message", changed.status().message()}});
      return false;
    }
    if (*changed) log::Write(log::Level::kInfo, "reloaded", {{"what", what}});
    return *changed;
  };
  reload(runtime_.tls, "tls");
  if (runtime_.tls != nullptr) {
    const absl::Status valid = runtime_.tls->CheckTime(absl::Now());
    if (!valid.ok()) {
      log::Write(log::Level::kError, "certificate_refused",
                 {{"message", valid.message()}});
    }
  }
  if (reload(runtime_.gate, "policy")) ApplyPolicy();
}

}  // namespace gemmd::rpc
