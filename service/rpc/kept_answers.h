// Answers of calls that may come again: a client that has lost one, with its
// connection for example, asks anew with the same idempotency key, and what it
// asked for is carried out once. In memory, for a while. Thread-safe.
#ifndef GEMMD_SERVICE_RPC_KEPT_ANSWERS_H_
#define GEMMD_SERVICE_RPC_KEPT_ANSWERS_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace gemmd::rpc {

class KeptAnswers {
  struct Kept;

 public:
  // Of one principal; of all clients where nobody says who he is.
  static constexpr int64_t kMostKeys = 16384;
  static constexpr int64_t kMostBytes = 16 << 20;
  static constexpr int64_t kMostAnswerBytes = 64 << 10;
  using Clock = std::chrono::steady_clock;  // Nobody sets it.
  static constexpr Clock::duration kLifetime = std::chrono::minutes(10);

  // What a key is of: another request may not have it.
  struct Request {
    std::string principal;
    std::string key;
    std::string method;
    int64_t bytes = 0;    // Of its first message,
    uint32_t crc32c = 0;  // and of the beginning of that.

    friend bool operator==(const Request&, const Request&) = default;
  };

  // The right to carry out a request. The key is forgotten with it unless an
  // answer was kept: then what was asked for has not been done.
  class Claim {
   public:
    Claim(KeptAnswers& answers, std::shared_ptr<Kept> claimed)
        : answers_(answers), claimed_(std::move(claimed)) {}
    ~Claim() {
      if (!kept_) answers_.Forget(claimed_);
    }
    Claim(const Claim&) = delete;

    // It was carried out. An answer that is longer than kMostAnswerBytes counts
    // as none.
    void Keep(std::optional<std::string> answer, Clock::time_point now) {
      kept_ = true;
      answers_.Keep(claimed_, std::move(answer), now);
    }
    // Whether it may be undone, and the key is forgotten: not once the answer
    // was given to another call, which counts on it.
    bool MayUndo() { return !kept_ || answers_.Retract(claimed_); }

   private:
    KeptAnswers& answers_;
    const std::shared_ptr<Kept> claimed_;
    bool kept_ = false;
  };
  using Found = std::variant<std::unique_ptr<Claim>, std::string>;

  // A claim for the one who is first, else the answer that he was given.
  // RESOURCE_EXHAUSTED, and when to try again, while that is not known;
  // ALREADY_EXISTS when it is not kept; INVALID_ARGUMENT when another request
  // has the key.
  absl::StatusOr<Found> Find(Request request, Clock::time_point now);

 private:
  // A claim holds it too, and may outlive its key here, which then may be that
  // of another one.
  struct Kept {
    const Request request;
    bool done = false;
    std::optional<std::string> answer;
    Clock::time_point since;  // When it was done.
    bool given = false;       // To another call than the first.
  };
  using KeptPointer = std::shared_ptr<Kept>;
  struct Owner {
    absl::flat_hash_map<std::string, KeptPointer> keys;
    std::deque<KeptPointer> done;  // Oldest first.
    int64_t bytes = 0;             // Of answers.

    bool Has(const Kept& kept) const;
    void Erase(const Kept& kept);
  };

  void Keep(const KeptPointer& kept, std::optional<std::string> answer,
            Clock::time_point now);
  void Forget(const KeptPointer& kept);
  // Forgets it and returns true, unless its answer was given.
  bool Retract(const KeptPointer& kept);
  // The oldest ones, of which there are too many or that are too old.
  static void Drop(Owner& owner, Clock::time_point now);

  std::mutex mutex_;
  absl::flat_hash_map<std::string, Owner> owners_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_KEPT_ANSWERS_H_
