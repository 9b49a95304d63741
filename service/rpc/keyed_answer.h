// What one call does with its idempotency key: it claims the key for the
// request that it brings, or finds the answer of an earlier call.
#ifndef GEMMD_SERVICE_RPC_KEYED_ANSWER_H_
#define GEMMD_SERVICE_RPC_KEYED_ANSWER_H_

#include <grpcpp/support/byte_buffer.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/rpc/kept_answers.h"
#include "service/rpc/message.h"

namespace gemmd::rpc {

class KeyedAnswer {
 public:
  // `kept` outlives it.
  explicit KeyedAnswer(KeptAnswers& kept) : kept_(kept) {}

  // "": there is none, and nothing to do.
  void SetKey(std::string key) { key_ = std::move(key); }

  // Claims the key, unless that was done, for a request of `principal` that
  // begins with `message`. Returns what an earlier call answered to it: this
  // one is over then. Fails as KeptAnswers::Find.
  absl::StatusOr<std::optional<std::string>> Claim(absl::string_view principal,
                                                   absl::string_view method,
                                                   const Message& message);
  bool is_claimed() const { return claim_ != nullptr; }
  // The request was carried out. `answer` is all that was answered; null where
  // that is not one message.
  void Keep(const grpc::ByteBuffer* answer);
  // It was not: whoever asks again is the first.
  void Forget() { claim_.reset(); }
  // As KeptAnswers::Claim's.
  bool MayUndo() { return claim_ == nullptr || claim_->MayUndo(); }

 private:
  KeptAnswers& kept_;
  std::string key_;
  std::unique_ptr<KeptAnswers::Claim> claim_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_KEYED_ANSWER_H_
