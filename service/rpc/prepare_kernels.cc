#include <optional>
#include <utility>
#include <vector>

#include "jit/base/status.h"
#include "jit/plan/group_launches.h"
#include "service/rpc/convert.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/methods.h"
#include "service/rpc/problem_list.h"

namespace gemmd::rpc {
namespace {

using engine::Execution;

Async<absl::StatusOr<Execution>> PrepareOne(Runtime& runtime, Call& call,
                                            const jit::Problem& problem,
                                            int device) {
  auto prepare =
      CallEngine<Execution>(call.loop(), [&](engine::Done<Execution> done) {
        runtime.engine.Prepare(problem, device, call.request_context(),
                               std::move(done));
      });
  co_return co_await prepare;
}

// Of each problem of a group; those that go together have the same.
Async<absl::StatusOr<std::vector<Execution>>> PrepareGroup(
    Runtime& runtime, Call& call, const jit::ProblemGroup& group, int device) {
  std::vector<const jit::Problem*> problems;
  for (const jit::Problem& problem : group) problems.push_back(&problem);
  std::vector<std::optional<Execution>> executions(group.size());
  for (const std::vector<size_t>& launch : jit::GroupLaunches(problems)) {
    if (launch.size() == 1) continue;
    std::vector<jit::Problem> together;
    for (const size_t i : launch) together.push_back(group[i]);
    auto prepare = CallEngine<std::optional<Execution>>(
        call.loop(), [&](engine::Done<std::optional<Execution>> done) {
          runtime.engine.PrepareTogether(std::move(together), device,
                                         call.request_context(),
                                         std::move(done));
        });
    CO_ASSIGN_OR_RETURN(const std::optional<Execution> execution,
                        co_await prepare);
    for (const size_t i : launch) executions[i] = execution;
  }
  std::vector<Execution> all;
  for (size_t i = 0; i < group.size(); ++i) {
    if (!executions[i]) {  // It goes by itself.
      CO_ASSIGN_OR_RETURN(executions[i],
                          co_await PrepareOne(runtime, call, group[i], device));
    }
    all.push_back(*std::move(executions[i]));
  }
  co_return all;
}

}  // namespace

Async<absl::StatusOr<v1::PrepareKernelsResponse>> PrepareKernels(
    Runtime& runtime, Call& call, const v1::PrepareKernelsRequest& request) {
  CO_ASSIGN_OR_RETURN(const jit::ProblemList list, ToProblemList(request));
  CO_ASSIGN_OR_RETURN(const std::vector<int> devices,
                      ToDevices(runtime, request.device()));
  v1::PrepareKernelsResponse response;
  for (const jit::Problem& problem : list.problems) {
    for (const int device : devices) {
      CO_ASSIGN_OR_RETURN(const Execution execution,
                          co_await PrepareOne(runtime, call, problem, device));
      *response.add_kernels() = ToWire(execution);
    }
  }
  for (size_t i = 0; i < list.groups.size(); ++i) {
    // By device, then by problem; the answer is in the other order.
    std::vector<std::vector<Execution>> by_device;
    for (const int device : devices) {
      auto group = co_await PrepareGroup(runtime, call, list.groups[i], device);
      if (!group.ok()) co_return jit::OfElement("groups", i, group.status());
      by_device.push_back(*std::move(group));
    }
    for (size_t j = 0; j < list.groups[i].size(); ++j) {
      for (const auto& group : by_device) {
        *response.add_kernels() = ToWire(group[j]);
      }
    }
  }
  co_return response;
}

}  // namespace gemmd::rpc
