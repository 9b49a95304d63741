#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/rpc/convert.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/methods.h"

namespace gemmd::rpc {
namespace {

constexpr int kMaxProblems = 1024;

absl::StatusOr<std::vector<jit::Problem>> ToProblems(
    const v1::PrepareKernelsRequest& request) {
  if (request.problems_size() > kMaxProblems) {
    return absl::InvalidArgumentError(
        absl::StrCat("problems has ", request.problems_size(),
                     " entries; allowed: 0 to ", kMaxProblems));
  }
  std::vector<jit::Problem> problems;
  for (int i = 0; i < request.problems_size(); ++i) {
    auto problem = ToProblem(request.problems(i));
    if (!problem.ok()) {
      return absl::Status(
          problem.status().code(),
          absl::StrCat("problems[", i, "]: ", problem.status().message()));
    }
    problems.push_back(*problem);
  }
  return problems;
}

absl::StatusOr<std::vector<int>> ToDevices(Runtime& runtime,
                                           const std::string& name) {
  std::vector<int> devices;
  if (name.empty()) {
    for (int i = 0; i < runtime.engine.device_count(); ++i) {
      devices.push_back(i);
    }
  } else {
    ASSIGN_OR_RETURN(const int device, runtime.engine.ChooseDevice(name));
    devices.push_back(device);
  }
  return devices;
}

}  // namespace

Async<absl::StatusOr<v1::PrepareKernelsResponse>> PrepareKernels(
    Runtime& runtime, Call& call, const v1::PrepareKernelsRequest& request) {
  CO_ASSIGN_OR_RETURN(const std::vector<jit::Problem> problems,
                      ToProblems(request));
  CO_ASSIGN_OR_RETURN(const std::vector<int> devices,
                      ToDevices(runtime, request.device()));
  v1::PrepareKernelsResponse response;
  for (const jit::Problem& problem : problems) {
    for (const int device : devices) {
      auto prepare = CallEngine<engine::Execution>(
          call.loop(), [&](engine::Done<engine::Execution> done) {
            runtime.engine.Prepare(problem, device, call.request_context(),
                                   std::move(done));
          });
      absl::StatusOr<engine::Execution> execution = co_await prepare;
      if (!execution.ok()) co_return execution.status();
      *response.add_kernels() = ToWire(*execution);
    }
  }
  co_return response;
}

}  // namespace gemmd::rpc
