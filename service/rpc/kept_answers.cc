#include "service/rpc/kept_answers.h"

#include "absl/strings/str_cat.h"
#include "service/engine/try_again.h"

namespace gemmd::rpc {
namespace {

// Of who asks while the first call is being carried out.
constexpr absl::Duration kPatience = absl::Milliseconds(50);

}  // namespace

absl::StatusOr<KeptAnswers::Found> KeptAnswers::Find(Request request,
                                                     Clock::time_point now) {
  std::lock_guard lock(mutex_);
  Owner& owner = owners_[request.principal];
  Drop(owner, now);
  const auto [at, first] = owner.keys.try_emplace(request.key);
  Kept& kept = at->second;
  if (first) {
    kept.request = request;
    return std::make_unique<Claim>(*this, std::move(request));
  }
  if (!(kept.request == request)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the idempotency key is that of another request (", kept.request.method,
        ", ", kept.request.bytes, " bytes, and not ", request.method, ", ",
        request.bytes, " bytes, or other ones); allowed: one key a request"));
  }
  if (!kept.done) {
    return engine::TryAgainError(
        "the first call with the idempotency key is being carried out",
        kPatience);
  }
  if (!kept.answer) {
    return absl::AlreadyExistsError(absl::StrCat(
        "the request was carried out; kept are answers of one message of at "
        "most ",
        kMostAnswerBytes, " bytes"));
  }
  kept.given = true;
  return *kept.answer;
}

void KeptAnswers::Keep(const Request& request,
                       std::optional<std::string> answer,
                       Clock::time_point now) {
  if (answer && answer->size() > kMostAnswerBytes) answer.reset();
  std::lock_guard lock(mutex_);
  Owner& owner = owners_[request.principal];
  Kept& kept = owner.keys[request.key];
  kept.done = true;
  kept.since = now;
  if (answer) owner.bytes += static_cast<int64_t>(answer->size());
  kept.answer = std::move(answer);
  owner.done.emplace_back(now, request.key);
  Drop(owner, now);
}

void KeptAnswers::Forget(const Request& request) {
  std::lock_guard lock(mutex_);
  owners_[request.principal].Erase(request.key);
}

bool KeptAnswers::Retract(const Request& request) {
  std::lock_guard lock(mutex_);
  Owner& owner = owners_[request.principal];
  const auto found = owner.keys.find(request.key);
  if (found != owner.keys.end() && found->second.given) return false;
  owner.Erase(request.key);
  return true;
}

void KeptAnswers::Owner::Erase(const std::string& key) {
  const auto found = keys.find(key);
  if (found == keys.end()) return;
  if (found->second.answer) {
    bytes -= static_cast<int64_t>(found->second.answer->size());
  }
  keys.erase(found);
}

void KeptAnswers::Drop(Owner& owner, Clock::time_point now) {
  while (!owner.done.empty()) {
    const auto& [since, key] = owner.done.front();
    const auto found = owner.keys.find(key);
    // One that was undone, and perhaps done again.
    const bool gone = found == owner.keys.end() || !found->second.done ||
                      found->second.since != since;
    if (!gone) {
      const bool many = static_cast<int64_t>(owner.done.size()) > kMostKeys ||
                        owner.bytes > kMostBytes;
      if (!many && now - since < kLifetime) return;
      owner.Erase(key);
    }
    owner.done.pop_front();
  }
}

}  // namespace gemmd::rpc
