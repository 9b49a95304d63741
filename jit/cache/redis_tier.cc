#include "jit/cache/redis_tier.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "jit/base/sha256.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"
#include "jit/cache/entry.h"
#include "jit/cache/signature.h"
#include "jit/compile/cubin.h"

namespace gemmd::jit {
namespace {

constexpr int64_t kMaxEntryBytes = int64_t{64} << 20;
constexpr char kLeftAlone[] = "the server is left alone";

// Opens after some failures in a row, closes again after a pause.
class CircuitBreaker {
 public:
  CircuitBreaker(int failures, absl::Duration pause)
      : limit_(failures), pause_(pause) {}

  bool open() {
    std::lock_guard lock(mutex_);
    return SteadyNow() < until_;
  }

  void Note(const absl::Status& status) {
    const bool failed =
        absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
        absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status);
    std::lock_guard lock(mutex_);
    failures_ = failed ? failures_ + 1 : 0;
    if (failures_ >= limit_) until_ = SteadyNow() + pause_;
  }

 private:
  const int limit_;
  const absl::Duration pause_;
  std::mutex mutex_;
  int failures_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

// One connection, used by one thread at a time.
class Line {
 public:
  // While `breaker` is open nobody is asked, and the answer is `left_alone`.
  Line(RedisServer server, CircuitBreaker& breaker, absl::Status left_alone)
      : breaker_(breaker),
        left_alone_(std::move(left_alone)),
        connection_(std::move(server)) {}

  absl::StatusOr<std::string> Command(const std::vector<std::string>& arguments,
                                      absl::Duration timeout) {
    if (breaker_.open()) return left_alone_;
    std::lock_guard lock(mutex_);
    // Those who had it before may have failed meanwhile.
    if (breaker_.open()) return left_alone_;
    absl::StatusOr<std::string> reply =
        connection_.Command(arguments, kMaxEntryBytes, SteadyNow() + timeout);
    breaker_.Note(reply.status());
    return reply;
  }

 private:
  CircuitBreaker& breaker_;
  const absl::Status left_alone_;
  std::mutex mutex_;
  RedisConnection connection_ ABSL_GUARDED_BY(mutex_);
};

class RedisTier final : public Tier {
 public:
  explicit RedisTier(RedisTierOptions options)
      : options_(std::move(options)),
        breaker_(options_.failures_until_pause, options_.pause),
        loads_(options_.server, breaker_, absl::NotFoundError(kLeftAlone)),
        stores_(options_.server, breaker_, absl::UnavailableError(kLeftAlone)) {
  }

  absl::StatusOr<CompiledKernel> Load(const std::string& key) override {
    ASSIGN_OR_RETURN(const std::string bytes, Get(options_.prefix + key));
    ASSIGN_OR_RETURN(const absl::string_view entry,
                     CheckSignature(options_.signing_key, bytes));
    ASSIGN_OR_RETURN(CompiledKernel kernel, DecodeEntry(entry));
    if (kernel.key != key) {
      return absl::DataLossError("entry lies under another key");
    }
    RETURN_IF_ERROR(CheckCubin(kernel));
    return kernel;
  }

  absl::StatusOr<CompiledKernel> LoadFor(const Instance& instance) override {
    ASSIGN_OR_RETURN(const std::string key,
                     Get(SourceName(instance.source.digest())));
    if (!IsSha256Hex(key)) {
      return absl::DataLossError("what lies under a source is no key");
    }
    ASSIGN_OR_RETURN(CompiledKernel kernel, Load(key));
    // A pointer is not signed: it may point to any entry.
    const bool meant =
        kernel.source == instance.source.text() &&
        kernel.options.size() >= instance.options.size() &&
        std::equal(instance.options.begin(), instance.options.end(),
                   kernel.options.begin());
    if (!meant) return absl::DataLossError("entry is of another source");
    return kernel;
  }

  absl::Status Store(const CompiledKernel& kernel) override {
    RETURN_IF_ERROR(Put({"SET", options_.prefix + kernel.key,
                         Sign(options_.signing_key, EncodeEntry(kernel))}));
    // For who has no compiler and does not know the key. The latest wins.
    return Put({"SET", SourceName(Sha256Of(kernel.source)), kernel.key});
  }

  absl::Status Remove(const std::string& key) override {
    return Put({"DEL", options_.prefix + key});
  }

 private:
  std::string SourceName(absl::string_view digest) const {
    return absl::StrCat(options_.prefix,
                        "source:", absl::BytesToHexString(digest));
  }

  absl::StatusOr<std::string> Get(const std::string& name) {
    return loads_.Command({"GET", name}, options_.load_timeout);
  }

  absl::Status Put(const std::vector<std::string>& command) {
    return stores_.Command(command, options_.store_timeout).status();
  }

  const RedisTierOptions options_;
  CircuitBreaker breaker_;
  // Two, so that no load waits behind a store.
  Line loads_;
  Line stores_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Tier>> CreateRedisTier(
    RedisTierOptions options) {
  if (options.signing_key.empty() && !options.allow_unsigned) {
    return absl::FailedPreconditionError(
        "a shared cache without a signing key is refused: whoever can write "
        "to it decides what is run");
  }
  return std::make_shared<RedisTier>(std::move(options));
}

}  // namespace gemmd::jit
