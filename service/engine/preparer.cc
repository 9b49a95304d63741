#include "service/engine/preparer.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "jit/base/look_again.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"

namespace gemmd::engine {
namespace {

// A compile serves those who come later too: it does not end with the deadline
// of one request.
constexpr absl::Duration kCompileTimeout = absl::Minutes(10);

// The cache waits for other processes for seconds; this is for errors of others
// that look the same.
constexpr absl::Duration kMostElsewhere = absl::Minutes(1);

absl::Status NeededFor(const absl::Status& why, const jit::Problem& problem) {
  if (!absl::IsFailedPrecondition(why)) return why;
  return absl::FailedPreconditionError(absl::StrCat(
      why.message(), " (needed for ", jit::DebugString(problem), ")"));
}

}  // namespace

Preparer::Preparer(Options options)
    : places_("the compiler", "its kernel was compiled", options.max_waiting),
      compiles_(options.compile_threads),
      lookups_(options.lookup_threads) {}

Preparer::~Preparer() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  places_.GiveUpAll(absl::UnavailableError("the daemon is shutting down"));
  lookups_.Stop();
  compiles_.Stop();
}

void Preparer::Prepare(KernelTable& kernels, const jit::Problem& problem,
                       bool substitute, std::shared_ptr<Waiter> waiter,
                       Ready ready, Places::Entry entry) {
  Enter(RequestPointer(new Request{kernels,
                                   {problem},
                                   /*group=*/false,
                                   substitute,
                                   std::move(waiter),
                                   std::move(ready)}),
        entry);
}

void Preparer::PrepareGroup(KernelTable& kernels,
                            std::vector<jit::Problem> problems, bool substitute,
                            std::shared_ptr<Waiter> waiter, Ready ready,
                            Places::Entry entry) {
  Enter(RequestPointer(new Request{kernels, std::move(problems),
                                   /*group=*/true, substitute,
                                   std::move(waiter), std::move(ready)}),
        entry);
}

void Preparer::PrepareAhead(KernelTable& kernels, const jit::Problem& problem,
                            std::shared_ptr<Waiter> waiter, Ready ready) {
  Begin(RequestPointer(new Request{kernels,
                                   {problem},
                                   /*group=*/false,
                                   /*substitute=*/true,
                                   std::move(waiter),
                                   std::move(ready),
                                   /*ahead=*/true}));
}

void Preparer::Enter(RequestPointer request, Places::Entry entry) {
  const absl::Status admitted = request->waiter->WaitIn(places_, entry);
  if (!admitted.ok()) return request->waiter->GiveUp(admitted);
  Begin(std::move(request));
}

void Preparer::Begin(RequestPointer request) {
  // A copy: the request moves.
  const std::string identity = request->waiter->context().identity;
  lookups_.Submit(identity, [this, request = std::move(request)]() mutable {
    Step(std::move(request));
  });
}

void Preparer::Step(RequestPointer request) {
  if (request->waiter->given_up()) return;
  KernelTable& kernels = request->kernels;
  Preparation& preparation = request->preparation;
  const absl::Time start = jit::SteadyNow();
  absl::StatusOr<KernelTable::Choice> choice;
  if (request->group) {
    choice = kernels.ChooseGroup(request->problems);
  } else {
    choice = kernels.Choose(request->problems[0]);
  }
  preparation.plan_time += jit::SteadyNow() - start;
  if (!choice.ok()) return GiveUp(*request, choice.status());
  if (choice->prepared == nullptr && !choice->wanted) {
    return request->ready(std::move(preparation));
  }
  // A copy: whoever boards may be gone before this ends.
  const std::string identity = request->waiter->context().identity;
  if (choice->prepared == nullptr || (choice->wanted && !request->substitute)) {
    return Board(kernels, *choice->wanted, identity, std::move(request));
  }
  if (choice->wanted) Board(kernels, *choice->wanted, identity, nullptr);
  preparation.prepared = std::move(choice->prepared);
  if (preparation.source == KernelSource::kNone) {
    preparation.source = KernelSource::kLoaded;
  }
  request->ready(std::move(preparation));
}

void Preparer::Board(KernelTable& kernels, const jit::Plan& plan,
                     const std::string& identity, RequestPointer request) {
  const Key key(&kernels, jit::KernelName(plan.family, plan.config));
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    auto& flight = flights_[key];
    const bool departs = flight == nullptr;
    if (departs) flight.reset(new Flight{kernels, plan});
    if (request != nullptr) {
      request->joined = jit::SteadyNow();
      flight->passengers.push_back(std::move(request));
    } else {
      flight->behind = true;
    }
    if (flight->state == Flight::kQueued) InTurnOf(identity, key, *flight);
    if (flight->state == Flight::kElsewhere) flight->turns.insert(identity);
    if (!departs) return;
  }
  auto loaded =
      kernels.Load(plan, KernelTable::Reach::kCache, absl::InfinitePast());
  if (!absl::IsNotFound(loaded.status())) return Land(key, loaded);
  std::lock_guard lock(mutex_);
  Flight& flight = *flights_.find(key)->second;
  flight.state = Flight::kQueued;
  InTurnOf(identity, key, flight);
  for (const RequestPointer& other : flight.passengers) {
    InTurnOf(other->waiter->context().identity, key, flight);
  }
}

void Preparer::InTurnOf(const std::string& identity, const Key& key,
                        Flight& flight) {
  if (!flight.turns.insert(identity).second) return;
  compiles_.Submit(identity, [this, key] { Compile(key); });
}

std::vector<Preparer::RequestPointer> Preparer::TakeGivenUp(Flight& flight) {
  const auto gone = std::ranges::partition(
      flight.passengers, [](const RequestPointer& request) {
        return !request->waiter->given_up();
      });
  std::vector<RequestPointer> taken(std::move_iterator(gone.begin()),
                                    std::move_iterator(gone.end()));
  flight.passengers.erase(gone.begin(), gone.end());
  return taken;
}

void Preparer::Sweep() {
  places_.Sweep();
  std::vector<std::vector<RequestPointer>> gone;  // Destroyed after the lock.
  std::lock_guard lock(mutex_);
  const absl::Time now = jit::SteadyNow();
  for (auto& [key, flight] : flights_) {
    gone.push_back(TakeGivenUp(*flight));
    if (flight->state == Flight::kElsewhere && now >= flight->ask_again) {
      AskAgain(key, *flight);
    }
  }
}

void Preparer::AskAgain(const Key& key, Flight& flight) {
  flight.state = Flight::kQueued;
  for (const std::string& identity : std::exchange(flight.turns, {})) {
    InTurnOf(identity, key, flight);
  }
}

void Preparer::PutOff(Flight& flight) {
  std::lock_guard lock(mutex_);
  const absl::Time now = jit::SteadyNow();
  flight.elsewhere_since = std::min(flight.elsewhere_since, now);
  flight.ask_again = now + jit::UntilNextLook(now - flight.elsewhere_since);
  flight.state = Flight::kElsewhere;
}

void Preparer::Compile(const Key& key) {
  places_.Sweep();  // Nothing is compiled for who has just left.
  std::vector<RequestPointer> gone;  // Destroyed after the lock.
  std::shared_ptr<Flight> flight;
  {
    std::lock_guard lock(mutex_);
    const auto found = flights_.find(key);
    if (found == flights_.end() || found->second->state != Flight::kQueued) {
      return;
    }
    flight = found->second;
    gone = TakeGivenUp(*flight);
    if (stopping_ || (flight->passengers.empty() && !flight->behind)) {
      flights_.erase(found);
      return;
    }
    flight->state = Flight::kCompiling;
  }
  // Its own thread alone reads and writes this of a flight that compiles.
  const absl::Time now = jit::SteadyNow();
  const bool may_put_off = now - flight->elsewhere_since < kMostElsewhere;
  const auto loaded =
      flight->kernels.Load(flight->plan,
                           may_put_off ? KernelTable::Reach::kOwnCompiler
                                       : KernelTable::Reach::kCompiler,
                           now + kCompileTimeout);
  if (may_put_off && absl::IsAborted(loaded.status())) return PutOff(*flight);
  Land(key, loaded);
}

void Preparer::Land(const Key& key,
                    const absl::StatusOr<KernelTable::Loaded>& loaded) {
  std::shared_ptr<Flight> flight;
  {
    std::lock_guard lock(mutex_);
    const auto found = flights_.find(key);
    flight = std::move(found->second);
    flights_.erase(found);
  }
  // Refused, the next best kernel is tried.
  const bool again = loaded.ok() || flight->kernels.Refuses(flight->plan);
  KernelSource source = loaded.ok() ? loaded->source : KernelSource::kNone;
  for (RequestPointer& request : flight->passengers) {
    Waiter& waiter = *request->waiter;
    if (waiter.given_up()) continue;
    request->preparation.compile_time += jit::SteadyNow() - request->joined;
    if (!again) {
      FallBack(std::move(request), loaded.status());
      continue;
    }
    if (loaded.ok()) {
      // Made for one of them; the others found it.
      request->preparation.source = source;
      source = KernelSource::kMemory;
    }
    Step(std::move(request));
  }
}

void Preparer::FallBack(RequestPointer request, const absl::Status& why) {
  // Others are in trouble that will pass, or did not ask for just any kernel.
  const bool falls = absl::IsFailedPrecondition(why) && request->substitute;
  if (falls && request->group) {
    return request->ready(std::move(request->preparation));
  }
  if (falls) {
    auto fallen = request->kernels.FallBack(request->problems[0]);
    if (fallen.ok()) {
      request->preparation.prepared = std::move(fallen->prepared);
      request->preparation.source = fallen->source;
      return request->ready(std::move(request->preparation));
    }
  }
  GiveUp(*request, NeededFor(why, request->problems[0]));
}

}  // namespace gemmd::engine
