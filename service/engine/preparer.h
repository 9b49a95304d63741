// Gets kernels for requests that have none. One flight per kernel and device:
// who needs a kernel that is under way joins it, and no thread waits for
// another's compile, nor for that of another process. Thread-safe.
//
// Planning and look-ups into the cache have threads of their own, so that a
// hit does not wait for compiles; both kinds of work take turns by identity.
// Requests hold a place here, not in the queue of a device.
#ifndef GEMMD_SERVICE_ENGINE_PREPARER_H_
#define GEMMD_SERVICE_ENGINE_PREPARER_H_

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/engine/kernel_table.h"
#include "service/engine/places.h"
#include "service/engine/thread_pool.h"
#include "service/engine/waiter.h"

namespace gemmd::engine {

struct Preparation {
  std::shared_ptr<const Prepared> prepared;
  KernelSource source = KernelSource::kNone;
  absl::Duration plan_time;
  absl::Duration compile_time;  // Cache, compiler, module load; all waiting.
};

class Preparer {
 public:
  struct Options {
    int lookup_threads = 2;
    int compile_threads = 4;
    int max_waiting = 256;  // Requests without a kernel.
  };

  explicit Preparer(Options options);
  // Lets running compiles end; who waits gets UNAVAILABLE.
  ~Preparer();

  // What a waiter gets, on a thread of the preparer, unless it is given up.
  // On an error it is given up with it.
  using Ready = absl::AnyInvocable<void(Preparation)>;

  // Gives `waiter` a place, and then the kernel of `problem`: the own one, or
  // any that will do when `substitute` is true; then the own one is prepared
  // behind it. Gives `waiter` up where that is impossible.
  void Prepare(KernelTable& kernels, const jit::Problem& problem,
               bool substitute, std::shared_ptr<Waiter> waiter, Ready ready,
               Places::Entry entry = Places::Entry::kIfFree);

  // The same of a kernel for `problems`, which go together. Where it does not
  // pay, or nothing can be compiled for who takes a substitute, the preparation
  // is of nothing.
  void PrepareGroup(KernelTable& kernels, std::vector<jit::Problem> problems,
                    bool substitute, std::shared_ptr<Waiter> waiter,
                    Ready ready, Places::Entry entry = Places::Entry::kIfFree);

  // The same for `waiter` who has a place and will ask for this one soon, so
  // that it is under way by then. Where it cannot be had, nothing happens.
  void PrepareAhead(KernelTable& kernels, const jit::Problem& problem,
                    std::shared_ptr<Waiter> waiter, Ready ready);

  // Runs `work`, a compile that no request waits for, when no compile of one
  // that does is to be done. Dropped where the preparer ends before that.
  void Behind(absl::AnyInvocable<void()> work) {
    compiles_.SubmitBehind(std::move(work));
  }

  // To be called often: gives up whom nobody waits for any more, and asks again
  // for what other processes were making.
  void Sweep();
  int64_t waiting() const { return places_.taken(); }
  int64_t waiting_of(const std::string& identity) const {
    return places_.taken_by(identity);
  }
  const Places& places() const { return places_; }

 private:
  struct Request {
    KernelTable& kernels;
    std::vector<jit::Problem> problems;  // One, or a group.
    bool group;
    bool substitute;
    std::shared_ptr<Waiter> waiter;
    Ready ready;
    bool ahead = false;  // Its waiter waits for another one, or none.
    Preparation preparation;
    absl::Time joined;  // The flight.
  };
  using RequestPointer = std::unique_ptr<Request>;

  // A kernel under way.
  struct Flight {
    KernelTable& kernels;
    jit::Plan plan;
    enum { kLooking, kQueued, kCompiling, kElsewhere } state = kLooking;
    bool behind = false;  // Wanted also when nobody waits.
    std::vector<RequestPointer> passengers;
    std::set<std::string> turns;  // In which it may be compiled.
    // Once another process was found to be making it.
    absl::Time elsewhere_since = absl::InfiniteFuture();
    absl::Time ask_again;  // Of kElsewhere.
  };
  using Key = std::pair<KernelTable*, std::string>;

  // Takes a place and begins.
  void Enter(RequestPointer request, Places::Entry entry);
  void Begin(RequestPointer request);
  static void GiveUp(const Request& request, const absl::Status& why) {
    if (!request.ahead) request.waiter->GiveUp(why);
  }
  // One round: plans, and answers or joins a flight.
  void Step(RequestPointer request);
  // `request` is null where the kernel is prepared behind others.
  void Board(KernelTable& kernels, const jit::Plan& plan,
             const std::string& identity, RequestPointer request);
  // Has the flight compiled when it is `identity`'s turn, at the latest.
  void InTurnOf(const std::string& identity, const Key& key, Flight& flight)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static std::vector<RequestPointer> TakeGivenUp(Flight& flight);
  void Compile(const Key& key);
  // Leaves the flight, which is made elsewhere, to a later turn.
  void PutOff(Flight& flight);
  // Has it compiled in the same turns as before.
  void AskAgain(const Key& key, Flight& flight)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Answers a request whose own kernel cannot be had.
  static void FallBack(RequestPointer request, const absl::Status& why);
  void Land(const Key& key, const absl::StatusOr<KernelTable::Loaded>& loaded);

  Places places_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<Flight>> flights_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Last: their threads use the members above. Look-ups schedule compiles and
  // the other way round, so both are stopped before either is destroyed.
  ThreadPool compiles_;
  ThreadPool lookups_;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_PREPARER_H_
