#include "service/identity/token_table.h"

#include <openssl/crypto.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "jit/base/sha256.h"

namespace gemmd::identity {

absl::StatusOr<TokenTable> TokenTable::Parse(absl::string_view text) {
  TokenTable table;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    const auto wrong = [number](absl::string_view what) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, ": ", what));
    };
    if (words.size() < 2 || words.size() > 3) {
      return wrong(
          "allowed: the principal's name, 64 hexadecimal digits and, "
          "if the token ends, when");
    }
    Token token = {.principal = words[0], .digest = {}};
    if (!jit::IsSha256Hex(words[1])) {
      return wrong("the second word is no SHA-256: 64 of 0-9 and a-f");
    }
    token.digest = absl::HexStringToBytes(words[1]);
    if (words.size() == 3 &&
        !absl::ParseTime(absl::RFC3339_full, words[2], &token.until, nullptr)) {
      return wrong("the third word is no time such as 2027-01-31T00:00:00Z");
    }
    table.tokens_.push_back(std::move(token));
  }
  return table;
}

absl::StatusOr<std::string> TokenTable::Check(absl::string_view token,
                                              absl::Time now) const {
  const std::string digest = jit::Sha256Of(token);
  const Token* found = nullptr;
  for (const Token& one : tokens_) {  // To the end, whatever is found.
    const bool same =
        CRYPTO_memcmp(one.digest.data(), digest.data(), jit::kSha256Bytes) == 0;
    // Of a token that is there twice, what lives longest counts.
    if (same && (found == nullptr || found->until < one.until)) found = &one;
  }
  if (found == nullptr) {
    return absl::UnauthenticatedError("the token is unknown");
  }
  if (now >= found->until) {
    return absl::UnauthenticatedError("the token has expired");
  }
  return found->principal;
}

}  // namespace gemmd::identity
