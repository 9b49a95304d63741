#include "service/rpc/kserve/find_model.h"
#include "service/rpc/kserve/methods.h"

namespace gemmd::rpc::kserve {
namespace {

void ToWire(const models::Counts::Sum& sum, inference::StatisticDuration& to) {
  to.set_count(sum.count);
  to.set_ns(absl::ToInt64Nanoseconds(sum.time));
}

void ToWire(const models::Counts& counts, inference::ModelStatistics& to) {
  if (counts.succeeded.count > 0) {
    to.set_last_inference(absl::ToUnixMillis(counts.last));
  }
  // Each request is an execution of its own.
  to.set_inference_count(counts.succeeded.count);
  to.set_execution_count(counts.succeeded.count);
  inference::InferStatistics& stats = *to.mutable_inference_stats();
  ToWire(counts.succeeded, *stats.mutable_success());
  ToWire(counts.failed, *stats.mutable_fail());
  ToWire(counts.queue, *stats.mutable_queue());
  ToWire(counts.input, *stats.mutable_compute_input());
  ToWire(counts.compute, *stats.mutable_compute_infer());
  ToWire(counts.output, *stats.mutable_compute_output());
}

}  // namespace

Async<absl::StatusOr<inference::ModelStatisticsResponse>> ModelStatistics(
    Runtime& runtime, Call& call,
    const inference::ModelStatisticsRequest& request) {
  const std::string who = WhoCounts(call);
  std::vector<models::ModelPointer> models;
  if (request.name().empty()) {
    models = runtime.models.ListOf(who);
  } else {
    CO_ASSIGN_OR_RETURN(
        models::ModelPointer model,
        FindModel(runtime, call, request.name(), request.version()));
    models.push_back(std::move(model));
  }
  inference::ModelStatisticsResponse response;
  for (const models::ModelPointer& model : models) {
    inference::ModelStatistics& to = *response.add_model_stats();
    to.set_name(model->spec().name);
    to.set_version(Version());
    // Who has to say who he is sees what is his.
    const bool all = call.principal() == nullptr || call.may_administer();
    ToWire(all ? model->usage().All() : model->usage().Of(who), to);
  }
  co_return response;
}

}  // namespace gemmd::rpc::kserve
