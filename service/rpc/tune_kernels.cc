#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/handler.h"
#include "service/rpc/methods.h"
#include "service/rpc/problem_list.h"

namespace gemmd::rpc {
namespace {

constexpr int kMaxCandidates = 64;

struct Tuning {
  std::vector<jit::Problem> problems;
  std::vector<int> devices;
  int candidates = engine::TuningOrder::kDefaultCandidates;
};

absl::StatusOr<Tuning> ToTuning(Runtime& runtime, const Call& call,
                                const v1::TuneKernelsRequest& request) {
  if (!call.may_administer()) {
    return absl::PermissionDeniedError(
        "kernels serve all clients; a daemon lets clients tune them when it is "
        "started with --admin-calls");
  }
  Tuning tuning;
  ASSIGN_OR_RETURN(tuning.problems, ToProblems(request.problems()));
  ASSIGN_OR_RETURN(tuning.devices, ToDevices(runtime, request.device()));
  if (request.candidates() < 0 || request.candidates() > kMaxCandidates) {
    return absl::InvalidArgumentError(
        absl::StrCat("candidates is ", request.candidates(), "; allowed: 0 to ",
                     kMaxCandidates));
  }
  if (request.candidates() > 0) tuning.candidates = request.candidates();
  return tuning;
}

v1::TuneKernelsResponse ToWire(const engine::TuningOutcome& outcome,
                               int problem) {
  v1::TuneKernelsResponse wire;
  wire.set_problem(problem);
  wire.set_device(outcome.device);
  wire.set_kernel_before(outcome.kernel_before);
  wire.set_splits_before(outcome.splits_before);
  wire.set_us_before(outcome.us_before);
  const jit::TuningRecord& record = outcome.record;
  wire.set_kernel(record.kernel);
  wire.set_splits(record.splits);
  wire.set_us(outcome.us);
  wire.set_predicted_us(static_cast<double>(record.predicted_nanoseconds) /
                        1000);
  wire.set_generation(record.generation);
  wire.set_measured(outcome.measured);
  wire.set_failed(outcome.failed);
  return wire;
}

}  // namespace

Async<absl::Status> TuneKernels(Runtime& runtime, Call& call) {
  v1::TuneKernelsRequest request;
  const absl::Status read =
      co_await ReadRequest(call, request, CheckProblemCount);
  if (!read.ok()) co_return read;
  CO_ASSIGN_OR_RETURN(const Tuning tuning, ToTuning(runtime, call, request));
  for (size_t i = 0; i < tuning.problems.size(); ++i) {
    for (const int device : tuning.devices) {
      auto tune = CallEngine<engine::TuningOutcome>(
          call.loop(), [&](engine::Done<engine::TuningOutcome> done) {
            runtime.engine.Tune({.problem = tuning.problems[i],
                                 .candidates = tuning.candidates,
                                 .new_generation = request.new_generation()},
                                device, call.request_context(),
                                std::move(done));
          });
      absl::StatusOr<engine::TuningOutcome> outcome = co_await tune;
      if (!outcome.ok()) co_return outcome.status();
      const grpc::ByteBuffer message =
          Serialize(ToWire(*outcome, static_cast<int>(i)));
      const bool written = co_await call.Write(message);
      if (!written) co_return absl::CancelledError("the client has gone");
    }
  }
  co_return absl::OkStatus();
}

}  // namespace gemmd::rpc
