#include "service/engine/group.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "jit/base/status.h"
#include "jit/plan/group_launches.h"
#include "jit/plan/group_plan.h"
#include "service/device/stopwatch.h"
#include "service/engine/device_counts.h"
#include "service/engine/metadata.h"

namespace gemmd::engine {
namespace {

// About a fifth of a second of a GPU.
constexpr double kMostOperations = 1e14;

// The products of a launch, placed on the device.
struct PlacedLaunch {
  std::vector<Prepared> prepared;
  std::vector<Placed> placed;
};

// With the plans of all: the preparation has that of the first.
std::vector<Prepared> PreparedOf(const GroupLaunch& launch,
                                 absl::Span<const Product> products,
                                 const jit::DeviceProperties& device) {
  const Prepared& first = *launch.preparation.prepared;
  if (!launch.together()) return {first};
  std::vector<jit::Problem> problems;
  for (const size_t i : launch.products) {
    problems.push_back(products[i].problem);
  }
  std::vector<Prepared> all;
  for (jit::Plan& plan :
       jit::PlansOf(problems, device, {first.plan.family, first.plan.config})) {
    all.push_back({std::move(plan), first.kernel, first.forms});
  }
  return all;
}

absl::StatusOr<PlacedLaunch> Place(device::Lane& lane,
                                   const jit::DeviceProperties& device,
                                   const GroupLaunch& launch,
                                   absl::Span<const Product> products,
                                   const RequestContext& context) {
  PlacedLaunch all = {.prepared = PreparedOf(launch, products, device)};
  for (size_t j = 0; j < launch.products.size(); ++j) {
    const size_t i = launch.products[j];
    if (absl::Status why = CheckMetadata(products[i]); !why.ok()) {
      return OfGroup(i, why);
    }
    auto placed =
        PlaceProduct(lane, all.prepared[j], products[i], products, context);
    if (!placed.ok()) return OfGroup(i, placed.status());
    all.placed.push_back(*std::move(placed));
  }
  return all;
}

absl::Status Enqueue(device::Lane& lane, const GroupLaunch& launch,
                     absl::Span<const Product> products,
                     const PlacedLaunch& placed) {
  if (!launch.together()) {
    const size_t i = launch.products[0];
    const absl::Status launched =
        Launch(lane, placed.prepared[0], products[i], placed.placed[0]);
    return launched.ok() ? launched : OfGroup(i, launched);
  }
  std::vector<device::GroupMember> members;
  for (size_t j = 0; j < launch.products.size(); ++j) {
    const Product& product = products[launch.products[j]];
    NoteWrites(product);
    const jit::Problem& problem = product.problem;
    members.push_back({&problem, &placed.prepared[j].plan,
                       OperandsOf(problem, placed.placed[j])});
  }
  return lane.MultiplyGroup(members, *placed.prepared[0].kernel->kernel);
}

}  // namespace

absl::Status OfGroup(size_t i, const absl::Status& error) {
  return jit::OfElement("groups", i, error);
}

std::vector<GroupLaunch> GroupLaunches(absl::Span<const Product> products) {
  std::vector<const jit::Problem*> problems;
  for (const Product& product : products) problems.push_back(&product.problem);
  std::vector<GroupLaunch> launches;
  for (std::vector<size_t>& numbers : jit::GroupLaunches(problems)) {
    launches.push_back({.products = std::move(numbers)});
  }
  return launches;
}

// In regions whoever asks sees to it himself, as MatmulGroupedRequest says:
// what meets there is of any value, whether the products run together or apart.
bool AreIndependent(absl::Span<const Product> products) {
  absl::flat_hash_map<const Tensor*, size_t> writers;
  for (size_t i = 0; i < products.size(); ++i) {
    for (const auto result : kResults) {
      const Tensor* const written = (products[i].*result).tensor.get();
      if (written == nullptr) continue;
      if (!writers.try_emplace(written, i).second) return false;
    }
  }
  for (size_t i = 0; i < products.size(); ++i) {
    for (const auto input : kInputs) {
      const auto writer = writers.find((products[i].*input).tensor.get());
      if (writer != writers.end() && writer->second != i) return false;
    }
  }
  return true;
}

bool AreShort(absl::Span<const Product> products) {
  double operations = 0;
  for (const Product& product : products) {
    operations += Operations(product.problem);
  }
  return operations <= kMostOperations;
}

absl::StatusOr<std::vector<Results>> RunGroup(
    device::Lane& lane, const jit::DeviceProperties& device,
    absl::Span<const GroupLaunch> launches, absl::Span<const Product> products,
    const RequestContext& context, Phases& phases) {
  device::Stopwatch stopwatch;
  std::vector<PlacedLaunch> placed;
  const auto enqueue = [&]() -> absl::Status {
    for (const GroupLaunch& launch : launches) {
      ASSIGN_OR_RETURN(placed.emplace_back(),
                       Place(lane, device, launch, products, context));
    }
    phases.upload = stopwatch.Lap();
    for (size_t j = 0; j < launches.size(); ++j) {
      RETURN_IF_ERROR((j == 0 ? context : context.OfTheRest()).Check("launch"));
      RETURN_IF_ERROR(Enqueue(lane, launches[j], products, placed[j]));
    }
    return absl::OkStatus();
  };
  const absl::Status enqueued = enqueue();
  // Also after an error: what was enqueued before it uses tensors that others
  // get next.
  const absl::Status done = lane.Synchronize();
  phases.execute = stopwatch.Lap();
  RETURN_IF_ERROR(enqueued);
  RETURN_IF_ERROR(done);

  std::vector<Results> results(products.size());
  for (size_t j = 0; j < launches.size(); ++j) {
    for (size_t l = 0; l < launches[j].products.size(); ++l) {
      const size_t i = launches[j].products[l];
      auto taken = DownloadResults(lane, products[i], placed[j].placed[l]);
      if (!taken.ok()) return OfGroup(i, taken.status());
      results[i] = *std::move(taken);
    }
  }
  phases.download = stopwatch.Lap();
  return results;
}

}  // namespace gemmd::engine
