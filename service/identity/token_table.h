// Bearer tokens, of which the daemon knows digests alone: the content of
// --token-digest-file. One a line: the principal's name, the 64 hexadecimal
// digits of the token's SHA-256, and where it ends some day, when, as in
// 2027-01-31T00:00:00Z. Empty lines, and those that begin with #, say nothing.
//
// A plain digest is enough for tokens of 128 random bits and more, which cannot
// be guessed from it. Immutable.
#ifndef GEMMD_SERVICE_IDENTITY_TOKEN_TABLE_H_
#define GEMMD_SERVICE_IDENTITY_TOKEN_TABLE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gemmd::identity {

class TokenTable {
 public:
  // INVALID_ARGUMENT names the line and nothing of its content.
  static absl::StatusOr<TokenTable> Parse(absl::string_view text);

  // The name of the principal whose token that is. UNAUTHENTICATED when it is
  // unknown or has expired. Takes the same time whatever the token is.
  absl::StatusOr<std::string> Check(absl::string_view token,
                                    absl::Time now) const;

  bool empty() const { return tokens_.empty(); }

 private:
  struct Token {
    std::string principal;
    std::string digest;  // 32 bytes.
    absl::Time until = absl::InfiniteFuture();
  };

  std::vector<Token> tokens_;
};

}  // namespace gemmd::identity

#endif  // GEMMD_SERVICE_IDENTITY_TOKEN_TABLE_H_
