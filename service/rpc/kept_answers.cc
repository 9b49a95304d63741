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
  if (first) {
    at->second = std::make_shared<Kept>(Kept{.request = std::move(request)});
    return std::make_unique<Claim>(*this, at->second);
  }
  Kept& kept = *at->second;
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

void KeptAnswers::Keep(const KeptPointer& kept,
                       std::optional<std::string> answer,
                       Clock::time_point now) {
  if (answer && answer->size() > kMostAnswerBytes) answer.reset();
  std::lock_guard lock(mutex_);
  Owner& owner = owners_[kept->request.principal];
  kept->done = true;
  kept->since = now;
  if (answer) owner.bytes += static_cast<int64_t>(answer->size());
  kept->answer = std::move(answer);
  owner.done.push_back(kept);
  Drop(owner, now);
}

void KeptAnswers::Forget(const KeptPointer& kept) {
  std::lock_guard lock(mutex_);
  owners_[kept->request.principal].Erase(*kept);
}

bool KeptAnswers::Retract(const KeptPointer& kept) {
  std::lock_guard lock(mutex_);
  if (kept->given) return false;
  owners_[kept->request.principal].Erase(*kept);
  return true;
}

bool KeptAnswers::Owner::Has(const Kept& kept) const {
  const auto found = keys.find(kept.request.key);
  return found != keys.end() && found->second.get() == &kept;
}

void KeptAnswers::Owner::Erase(const Kept& kept) {
  if (!Has(kept)) return;
  if (kept.answer) bytes -= static_cast<int64_t>(kept.answer->size());
  keys.erase(kept.request.key);
}

void KeptAnswers::Drop(Owner& owner, Clock::time_point now) {
  while (!owner.done.empty()) {
    const Kept& oldest = *owner.done.front();
    if (owner.Has(oldest)) {  // It was not undone.
      const bool many = static_cast<int64_t>(owner.done.size()) > kMostKeys ||
                        owner.bytes > kMostBytes;
      if (!many && now - oldest.since < kLifetime) return;
      owner.Erase(oldest);
    }
    owner.done.pop_front();
  }
}

}  // namespace gemmd::rpc
