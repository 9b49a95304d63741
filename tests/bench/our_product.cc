#include "tests/bench/our_product.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "jit/base/status.h"
#include "jit/plan/tuned_plan.h"
#include "jit/source/prepare_instances.h"

namespace gemmd::bench {
namespace {

absl::Time CompileDeadline() { return absl::Now() + absl::Minutes(10); }

constexpr int kAllPlans = 1 << 20;
constexpr double kMostExcess = 4;

std::vector<jit::Plan> Plans(const jit::Problem& problem,
                             const jit::DeviceProperties& device, int count,
                             int explore) {
  if (count <= 1 && explore == 0) return {jit::UntunedPlan(problem, device)};
  std::vector<jit::Plan> plans = jit::RankPlans(problem, device, kAllPlans);
  const double most = kMostExcess * plans.front().predicted_us;
  std::erase_if(plans, [most](const jit::Plan& plan) {
    return plan.predicted_us > most;
  });
  const size_t best =
      std::min<size_t>(static_cast<size_t>(count), plans.size());
  std::vector<jit::Plan> chosen(plans.begin(),
                                plans.begin() + static_cast<ptrdiff_t>(best));
  const size_t rest = plans.size() - best;
  const size_t more = std::min<size_t>(static_cast<size_t>(explore), rest);
  for (size_t i = 0; i < more; ++i) {
    chosen.push_back(plans[best + i * rest / more]);
  }
  return chosen;
}

}  // namespace

absl::StatusOr<Choice> ChoiceOf(const jit::Problem& problem,
                                const jit::Plan& plan,
                                const jit::TemplateLibrary& templates) {
  ASSIGN_OR_RETURN(jit::Instance instance,
                   jit::MakeInstance(templates, plan.family, plan.config));
  ASSIGN_OR_RETURN(std::vector<jit::Instance> preparations,
                   jit::MakePrepareInstances(templates, problem, plan));
  return Choice{plan, std::move(instance), std::move(preparations)};
}

absl::StatusOr<std::vector<Choice>> Choices(
    const jit::Problem& problem, const jit::DeviceProperties& device,
    const jit::TemplateLibrary& templates, int count, int explore) {
  std::vector<Choice> choices;
  for (const jit::Plan& plan : Plans(problem, device, count, explore)) {
    ASSIGN_OR_RETURN(Choice choice, ChoiceOf(problem, plan, templates));
    choices.push_back(std::move(choice));
  }
  return choices;
}

std::vector<absl::Status> CompileAll(
    const std::vector<jit::Instance>& instances, jit::KernelCache& cache) {
  std::vector<absl::Status> statuses(instances.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < instances.size(); i = next++) {
      statuses[i] = cache.Get(instances[i], CompileDeadline()).status();
    }
  };
  std::vector<std::thread> threads;
  const unsigned count = std::max(1u, std::thread::hardware_concurrency());
  for (unsigned i = 0; i < count; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

OurProduct::OurProduct(std::shared_ptr<gpu::Stream> stream,
                       jit::Problem problem, const Choice& choice,
                       gpu::Module module)
    : stream_(std::move(stream)),
      problem_(problem),
      plan_(choice.plan),
      name_(choice.instance.name),
      module_(std::move(module)) {}

absl::StatusOr<std::unique_ptr<OurProduct>> OurProduct::Create(
    const gpu::CudaDevice& device, const std::shared_ptr<gpu::Stream>& stream,
    const jit::Problem& problem, const Choice& choice, jit::KernelCache& cache,
    const Operands& operands) {
  ASSIGN_OR_RETURN(const jit::CacheResult compiled,
                   cache.Get(choice.instance, CompileDeadline()));
  ASSIGN_OR_RETURN(gpu::Module module,
                   gpu::Module::Load(&device.context(), compiled.kernel->cubin,
                                     jit::kKernelSymbol));
  auto product = std::unique_ptr<OurProduct>(
      new OurProduct(stream, problem, choice, std::move(module)));
  const jit::Plan& plan = product->plan_;
  ASSIGN_OR_RETURN(product->functions_,
                   gpu::FunctionsOf(product->module_, plan));
  RETURN_IF_ERROR(product->workspace_.Reserve(plan, device.memory(), stream));
  product->first_ = &operands[0];
  for (int i = 0; i < operands.size(); ++i) {
    ASSIGN_OR_RETURN(gpu::PreparedLaunch launch,
                     product->Prepare(operands[i], operands[i].d.padded.get()));
    product->launches_.push_back(launch);
  }
  return product;
}

absl::StatusOr<gpu::PreparedLaunch> OurProduct::Prepare(const OperandCopy& copy,
                                                        CUdeviceptr d) const {
  gpu::LaunchMemory memory = {.a = copy.a.ready(),
                              .b = copy.b.ready(),
                              .metadata = problem_.sparse == jit::Sparse::kB
                                              ? copy.b.derived.get()
                                              : copy.a.derived.get(),
                              .c = copy.c.padded.get(),
                              .d = d};
  workspace_.AddTo(memory);
  return gpu::PrepareLaunch(stream_->driver(), problem_, plan_, functions_,
                            memory);
}

absl::Status OurProduct::Enqueue(int i) const {
  return gpu::Enqueue(launches_[static_cast<size_t>(i) % launches_.size()],
                      *stream_);
}

absl::Status OurProduct::EnqueueInto(CUdeviceptr d) const {
  ASSIGN_OR_RETURN(const gpu::PreparedLaunch launch, Prepare(*first_, d));
  return gpu::Enqueue(launch, *stream_);
}

}  // namespace gemmd::bench
