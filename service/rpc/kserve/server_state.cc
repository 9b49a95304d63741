// Whether the daemon lives and serves, what it is, and what it does not do.
#include "absl/strings/str_cat.h"
#include "service/rpc/kserve/find_model.h"
#include "service/rpc/kserve/methods.h"

namespace gemmd::rpc::kserve {

Async<absl::StatusOr<inference::ServerLiveResponse>> ServerLive(
    Runtime&, Call&, const inference::ServerLiveRequest&) {
  inference::ServerLiveResponse response;
  response.set_live(true);
  co_return response;
}

Async<absl::StatusOr<inference::ServerReadyResponse>> ServerReady(
    Runtime& runtime, Call&, const inference::ServerReadyRequest&) {
  inference::ServerReadyResponse response;
  response.set_ready(runtime.health.serving());
  co_return response;
}

Async<absl::StatusOr<inference::ServerMetadataResponse>> ServerMetadata(
    Runtime& runtime, Call&, const inference::ServerMetadataRequest&) {
  inference::ServerMetadataResponse response;
  response.set_name("gemmd");
  response.set_version(runtime.facts.version);
  response.add_extensions("model_configuration");
  response.add_extensions("statistics");
  co_return response;
}

Async<absl::Status> Unserved(Runtime&, Call& call) {
  const std::string& method = call.method();
  const std::string name = method.substr(method.rfind('/') + 1);
  if (name.starts_with("RepositoryModel")) {
    co_return absl::UnimplementedError(
        absl::StrCat(name,
                     " is not served: models are made and deleted by "
                     "gemmd.v1.ModelService (gemmctl model), and are "
                     "loaded as long as they are there"));
  }
  if (name.find("SharedMemory") != std::string::npos) {
    co_return absl::UnimplementedError(
        absl::StrCat(name,
                     " is not served: regions of memory are shared by the "
                     "clients of gemmd.v1 alone; send raw_input_contents"));
  }
  co_return absl::UnimplementedError(absl::StrCat(
      name, " is not served: settings are those of the command line"));
}

}  // namespace gemmd::rpc::kserve
