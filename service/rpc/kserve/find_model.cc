#include "service/rpc/kserve/find_model.h"

#include "absl/strings/str_cat.h"
#include "service/rpc/kserve/text.h"

namespace gemmd::rpc::kserve {

std::string Version() { return "1"; }

std::string WhoCounts(const Call& call) {
  return call.principal() == nullptr ? "" : call.principal()->name;
}

absl::StatusOr<models::ModelPointer> FindModel(Runtime& runtime,
                                               const Call& call,
                                               const std::string& name,
                                               const std::string& version) {
  models::ModelPointer model = runtime.models.Find(name, WhoCounts(call));
  if (model == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        "Request for unknown model: ", Quoted(name), " is not found"));
  }
  if (!version.empty() && version != Version()) {
    return absl::NotFoundError(
        absl::StrCat("Request for unknown model: ", Quoted(name), " version ",
                     Quoted(version), " is not found; allowed: ", Version()));
  }
  return model;
}

}  // namespace gemmd::rpc::kserve
