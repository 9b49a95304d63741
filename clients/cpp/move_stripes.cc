// What a client moves by several connections at a time.
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "clients/cpp/client.h"
#include "clients/cpp/loan.h"

namespace gemmd::client {
namespace {

// How several calls that stand or fall together ended. Thread-safe.
class Outcome {
 public:
  // True for the first failure that is the cause of others. The daemon ends one
  // part for another's failure, too, and may tell that one first.
  bool Note(const absl::Status& status) {
    if (status.ok()) return false;
    std::lock_guard lock(mutex_);
    const bool is_cause =
        !IsConsequence(status) && (status_.ok() || IsConsequence(status_));
    if (status_.ok() || is_cause) status_ = status;
    return is_cause;
  }
  absl::Status status() {
    std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  static bool IsConsequence(const absl::Status& status) {
    return absl::IsAborted(status) || absl::IsCancelled(status);
  }

  std::mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

struct Attempt {
  Loan loan;  // Outlives the context, whose end lets the transport go.
  grpc::ClientContext context;
};

}  // namespace

absl::Status Client::MoveStripes(size_t stripes, absl::Time end, Move move) {
  const std::vector<Client*> clients = Connections(stripes);
  std::deque<Attempt> attempts(stripes);
  for (Attempt& attempt : attempts) Prepare(attempt.context, end);
  Outcome outcome;
  const auto note = [&](const absl::Status& status) {
    if (!outcome.Note(status)) return;
    for (Attempt& attempt : attempts) attempt.context.TryCancel();
  };
  const auto run = [&](size_t i) {
    note(move(i, *clients[i % clients.size()], attempts[i].loan,
              attempts[i].context));
  };
  std::vector<std::thread> threads;
  try {
    for (size_t i = 1; i < stripes; ++i) threads.emplace_back(run, i);
    run(0);
  } catch (const std::system_error& error) {  // Of std::thread.
    note(absl::ResourceExhaustedError(error.what()));
  }
  for (std::thread& thread : threads) thread.join();
  return outcome.status();
}

std::vector<Client*> Client::Connections(size_t count) {
  std::lock_guard lock(others_mutex_);
  while (others_.size() + 1 < count && !is_full_) {
    absl::StatusOr<std::unique_ptr<Client>> another = Another();
    is_full_ = !another.ok();
    if (!is_full_) others_.push_back(*std::move(another));
  }
  std::vector<Client*> clients = {this};
  for (const auto& other : others_) {
    if (clients.size() < count) clients.push_back(other.get());
  }
  return clients;
}

}  // namespace gemmd::client
