#include "tests/bench/race.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "jit/base/status.h"
#include "tests/bench/derivation.h"
#include "tests/bench/profiler_range.h"

namespace gemmd::bench {
namespace {

// Of the library's heuristics, this many are timed in full.
constexpr size_t kFinalists = 4;

// A contender and where its times go.
struct Runner {
  Timer::Prepared prepared;
  Times* times;
};

RepitchArguments PackArguments(const Matrix& matrix) {
  const jit::MatrixLayout& layout = matrix.layout;
  return {.from = reinterpret_cast<const void*>(matrix.separate.get()),
          .to = reinterpret_cast<void*>(matrix.padded.get()),
          .from_pitch = layout.width_bytes(),
          .to_pitch = layout.pitch_bytes(),
          .width = layout.width_bytes(),
          .lines = layout.lines()};
}

class Racer {
 public:
  Racer(const RaceTrack& track, const Operands& operands,
        const Derivation& derivation, RaceResult& result)
      : track_(track),
        operands_(operands),
        derivation_(derivation),
        result_(result) {}

  absl::Status AddOurs(const std::vector<Choice>& choices);
  absl::Status AddLibrary();
  absl::Status CheckOurs();
  // Times everybody that was added.
  absl::Status Run();

 private:
  absl::Status PrepareOurs();
  absl::Status PrepareLibrary();
  absl::Status DropSlowHeuristics();
  void PickBest();
  absl::Status RunSustained();
  absl::Status Profile() const;

  absl::Status Add(const Contender& contender, Times& times,
                   std::vector<Runner>& runners) const;
  // The product of copy `i` from operands as a client has them.
  absl::Status EnqueuePacked(const OurProduct& product, int i) const;
  absl::Status EnqueueLibrary(size_t heuristic, int i) const;
  // Times `runners`, in order, by `measure`, as bursts.
  template <typename Measure>
  absl::Status TimeAll(const std::vector<const Runner*>& runners,
                       Measure measure) const;

  const RaceTrack& track_;
  const Operands& operands_;
  const Derivation& derivation_;
  RaceResult& result_;
  std::vector<std::unique_ptr<OurProduct>> products_;
  std::unique_ptr<LtProduct> library_;
  std::vector<lt::HeuristicResult> heuristics_;
  std::vector<Times> heuristic_times_;
  std::vector<Runner> ours_;             // Resident and packed of each choice.
  std::vector<Runner> library_runners_;  // Of each heuristic.
  std::vector<size_t> finalists_;        // Indices into library_runners_.
};

absl::Status Racer::EnqueuePacked(const OurProduct& product, int i) const {
  const OperandCopy& copy = operands_[i];
  for (const Matrix* matrix : {&copy.a, &copy.b}) {
    if (!matrix->odd()) continue;
    RETURN_IF_ERROR(
        track_.code.Repitch(PackArguments(*matrix), *track_.stream));
  }
  RETURN_IF_ERROR(derivation_.Enqueue(i));
  return product.Enqueue(i);
}

absl::Status Racer::AddOurs(const std::vector<Choice>& choices) {
  result_.ours.resize(choices.size());  // Before addresses are taken.
  for (size_t at = 0; at < choices.size(); ++at) {
    Choice choice = choices[at];
    choice.plan.brief = track_.brief.value_or(choice.plan.brief);
    ASSIGN_OR_RETURN(
        std::unique_ptr<OurProduct> product,
        OurProduct::Create(track_.device, track_.stream, result_.problem,
                           choice, track_.cache, operands_));
    OurResult& ours = result_.ours[at];
    const jit::Plan& plan = product->plan();
    ours.kernel = product->name();
    ours.predicted_cycles = plan.predicted_cycles;
    ours.predicted_us = plan.predicted_us;
    ours.terms = jit::CostTermsOf(plan, track_.device.description().properties);
    ours.grid = plan.grid;
    ours.splits = plan.splits;
    ours.raster_group = plan.raster_group;
    products_.push_back(std::move(product));
  }
  return absl::OkStatus();
}

absl::Status Racer::AddLibrary() {
  if (track_.library == nullptr || !result_.problem.reads_ab()) {
    return absl::OkStatus();
  }
  auto library = LtProduct::Create(*track_.library, result_.problem);
  if (absl::IsUnimplemented(library.status())) return absl::OkStatus();
  if (!library.ok()) return library.status();
  library_ = *std::move(library);
  ASSIGN_OR_RETURN(
      heuristics_,
      library_->Heuristics(track_.heuristics, track_.library_workspace_bytes));
  if (heuristics_.empty()) {
    library_.reset();  // The library does not serve this problem.
    return absl::OkStatus();
  }
  result_.library.emplace();
  result_.library->heuristics = static_cast<int>(heuristics_.size());
  return absl::OkStatus();
}

absl::Status Racer::CheckOurs() {
  Checker checker(track_.device, track_.stream, track_.code);
  if (library_ != nullptr) {
    RETURN_IF_ERROR(checker.SetReference(*library_, heuristics_[0], operands_,
                                         track_.library_workspace));
  }
  for (size_t i = 0; i < products_.size(); ++i) {
    ASSIGN_OR_RETURN(result_.ours[i].check,
                     checker.Check(result_.problem, *products_[i]));
  }
  return absl::OkStatus();
}

std::vector<const Runner*> All(const std::vector<Runner>& runners) {
  std::vector<const Runner*> all;
  for (const Runner& runner : runners) all.push_back(&runner);
  return all;
}

std::vector<const Timer::Prepared*> PreparedOf(
    const std::vector<const Runner*>& runners) {
  std::vector<const Timer::Prepared*> all;
  for (const Runner* runner : runners) all.push_back(&runner->prepared);
  return all;
}

absl::Status Racer::Add(const Contender& contender, Times& times,
                        std::vector<Runner>& runners) const {
  ASSIGN_OR_RETURN(Timer::Prepared prepared,
                   track_.timer.Prepare(contender, operands_.size()));
  runners.push_back({std::move(prepared), &times});
  return absl::OkStatus();
}

template <typename Measure>
absl::Status Racer::TimeAll(const std::vector<const Runner*>& runners,
                            Measure measure) const {
  ASSIGN_OR_RETURN(const std::vector<double> us,
                   (track_.timer.*measure)(PreparedOf(runners)));
  for (size_t i = 0; i < runners.size(); ++i) {
    runners[i]->times->burst_us = us[i];
  }
  return absl::OkStatus();
}

absl::Status Racer::PrepareOurs() {
  for (size_t i = 0; i < products_.size(); ++i) {
    const OurProduct& product = *products_[i];
    const auto resident = [&product](int at) { return product.Enqueue(at); };
    RETURN_IF_ERROR(
        Add({product.name(), resident}, result_.ours[i].resident, ours_));
    if (!result_.odd) continue;
    const auto packed = [this, &product](int at) {
      return EnqueuePacked(product, at);
    };
    RETURN_IF_ERROR(
        Add({product.name(), packed}, result_.ours[i].packed, ours_));
  }
  return absl::OkStatus();
}

absl::Status Racer::EnqueueLibrary(size_t heuristic, int i) const {
  const OperandCopy& copy = operands_[i];
  return library_->Enqueue(heuristics_[heuristic],
                           {.a = copy.a.unpadded(),
                            .b = copy.b.unpadded(),
                            .c = copy.c.unpadded(),
                            .d = copy.d.unpadded(),
                            .workspace = track_.library_workspace},
                           *track_.stream);
}

absl::Status Racer::PrepareLibrary() {
  heuristic_times_.resize(heuristics_.size());
  for (size_t i = 0; i < heuristics_.size(); ++i) {
    const auto enqueue = [this, i](int at) { return EnqueueLibrary(i, at); };
    RETURN_IF_ERROR(
        Add({"cublaslt", enqueue}, heuristic_times_[i], library_runners_));
  }
  return absl::OkStatus();
}

// The slower half drops out, but for the first choice, which is what most
// programs get.
absl::Status Racer::DropSlowHeuristics() {
  RETURN_IF_ERROR(TimeAll(All(library_runners_), &Timer::Quick));
  std::vector<size_t> order(library_runners_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
    return heuristic_times_[a].burst_us < heuristic_times_[b].burst_us;
  });
  for (size_t rank = 0; rank < order.size(); ++rank) {
    if (rank < kFinalists || order[rank] == 0) {
      finalists_.push_back(order[rank]);
    }
  }
  return absl::OkStatus();
}

void Racer::PickBest() {
  const auto& ours = result_.ours;
  result_.best = static_cast<int>(
      std::min_element(ours.begin(), ours.end(),
                       [](const OurResult& a, const OurResult& b) {
                         return a.resident.burst_us < b.resident.burst_us;
                       }) -
      ours.begin());
  if (library_ == nullptr) return;
  result_.library->best = static_cast<int>(*std::min_element(
      finalists_.begin(), finalists_.end(), [this](size_t a, size_t b) {
        return heuristic_times_[a].burst_us < heuristic_times_[b].burst_us;
      }));
}

absl::Status Racer::RunSustained() {
  const OurResult& ours = result_.ours[static_cast<size_t>(result_.best)];
  std::vector<const Runner*> runners;
  for (const Runner& runner : ours_) {
    if (runner.times == &ours.resident || runner.times == &ours.packed) {
      runners.push_back(&runner);
    }
  }
  if (library_ != nullptr) {
    runners.push_back(
        &library_runners_[static_cast<size_t>(result_.library->best)]);
  }
  ASSIGN_OR_RETURN(const std::vector<Timer::Sustenance> found,
                   track_.timer.Sustained(PreparedOf(runners)));
  for (size_t i = 0; i < runners.size(); ++i) {
    runners[i]->times->sustained_us = found[i].us;
    runners[i]->times->sustained_joules = found[i].joules;
  }
  return absl::OkStatus();
}

// Of a copy each that none has read for longest.
absl::Status Racer::Profile() const {
  return InProfilerRange(*track_.stream, [this]() -> absl::Status {
    int copy = operands_.size();
    for (const auto& product : products_) {
      RETURN_IF_ERROR(product->Enqueue(--copy));
    }
    for (size_t i = 0; i < heuristics_.size(); ++i) {
      RETURN_IF_ERROR(EnqueueLibrary(i, --copy));
    }
    return absl::OkStatus();
  });
}

absl::Status Racer::Run() {
  RETURN_IF_ERROR(PrepareOurs());
  RETURN_IF_ERROR(PrepareLibrary());
  if (track_.profile) RETURN_IF_ERROR(Profile());
  if (library_ != nullptr) RETURN_IF_ERROR(DropSlowHeuristics());
  std::vector<const Runner*> runners = All(ours_);
  for (size_t at : finalists_) runners.push_back(&library_runners_[at]);
  // Without bursts a quick look still picks who runs sustained.
  RETURN_IF_ERROR(
      TimeAll(runners, track_.burst ? &Timer::Burst : &Timer::Quick));
  PickBest();
  if (track_.sustained) RETURN_IF_ERROR(RunSustained());
  if (library_ != nullptr) {
    LibraryResult& library = *result_.library;
    library.best_times = heuristic_times_[static_cast<size_t>(library.best)];
    library.first_times = heuristic_times_[0];
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RaceResult> Race(const RaceTrack& track,
                                const jit::Problem& problem,
                                const std::vector<Choice>& choices) {
  RETURN_IF_ERROR(track.device.context().MakeCurrent());
  RaceResult result;
  result.problem = problem;
  ASSIGN_OR_RETURN(
      Operands operands,
      Operands::Create(problem, track.device.memory(), track.stream, track.code,
                       {.l2_bytes = track.l2_bytes}));
  ASSIGN_OR_RETURN(const Derivation derivation,
                   Derivation::Create(track.device, track.stream, choices,
                                      track.cache, operands));
  result.odd = operands.needs_pack() || derivation.needed();
  Racer racer(track, operands, derivation, result);
  RETURN_IF_ERROR(racer.AddOurs(choices));
  RETURN_IF_ERROR(racer.AddLibrary());
  if (track.check) RETURN_IF_ERROR(racer.CheckOurs());
  RETURN_IF_ERROR(racer.Run());
  return result;
}

}  // namespace gemmd::bench
