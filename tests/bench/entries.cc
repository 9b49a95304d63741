#include "tests/bench/entries.h"

#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "jit/cache/tuning_table.h"
#include "jit/plan/tuned_plan.h"
#include "tests/bench/ceiling.h"
#include "tests/bench/device_code.h"

namespace gemmd::bench {
namespace {

// Adds the plan that a daemon would use for its records, unless it is the
// first one.
absl::Status AddTuned(const jit::TuningTable& tuning,
                      const device::Description& device,
                      const jit::Problem& problem,
                      const jit::TemplateLibrary& templates,
                      std::vector<Choice>& choices) {
  const auto record = tuning.Find(problem, device.product);
  if (!record) return absl::OkStatus();
  const auto plan = jit::TunedPlan(*record, problem, device.properties);
  if (!plan || jit::SameLaunch(*plan, choices.front().plan)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Choice choice, ChoiceOf(problem, *plan, templates));
  choices.push_back(std::move(choice));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Entries> Entries::Prepare(const Options& options,
                                         const device::Description& device,
                                         const jit::TemplateLibrary& templates,
                                         jit::KernelCache& cache) {
  Entries entries;
  ASSIGN_OR_RETURN(std::vector<jit::Instance> instances,
                   DeviceCode::Instances(templates));
  const jit::TuningTable tuning({.directory = options.tuning_directory},
                                templates.Digest());
  std::set<std::string> names;
  const auto add = [&](const jit::Instance& instance) {
    if (names.insert(instance.name).second) instances.push_back(instance);
  };
  for (const jit::Problem& problem : options.problems) {
    if (options.ceiling) {
      ASSIGN_OR_RETURN(
          const jit::Instance ceiling,
          CeilingInstance(templates, InstructionOf(problem.arithmetic())));
      add(ceiling);
    }
    ASSIGN_OR_RETURN(std::vector<Choice> choices,
                     Choices(problem, device.properties, templates,
                             options.candidates, options.explore));
    RETURN_IF_ERROR(AddTuned(tuning, device, problem, templates, choices));
    for (const Choice& choice : choices) {
      add(choice.instance);
      for (const jit::Instance& instance : choice.preparations) add(instance);
    }
    entries.choices_.push_back(std::move(choices));
  }

  const absl::Time begin = absl::Now();
  const std::vector<absl::Status> statuses = CompileAll(instances, cache);
  std::set<std::string> failed;
  for (size_t i = 0; i < instances.size(); ++i) {
    if (statuses[i].ok()) continue;
    absl::FPrintF(stderr, "gemm_bench: %s: %s\n", instances[i].name,
                  statuses[i].ToString());
    failed.insert(instances[i].name);
  }
  for (std::vector<Choice>& choices : entries.choices_) {
    std::erase_if(choices, [&failed](const Choice& choice) {
      return failed.count(choice.instance.name) != 0;
    });
  }
  entries.complete_ = failed.empty();
  absl::PrintF("%d kernels, %d compiled, in %.1f s\n", instances.size(),
               cache.statistics().compiles,
               absl::ToDoubleSeconds(absl::Now() - begin));
  return entries;
}

}  // namespace gemmd::bench
