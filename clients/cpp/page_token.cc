#include "clients/cpp/page_token.h"

#include "absl/strings/str_cat.h"

namespace gemmd::client {

absl::Status PageToken::Advance(const std::string& next) {
  ++pages_;
  if (!next.empty() && (next == text_ || pages_ == kMostPages)) {
    return absl::InternalError(
        absl::StrCat("the daemon's list does not end: after ", pages_,
                     " pages it says that there is another one",
                     next == text_ ? ", which is the same again" : ""));
  }
  text_ = next;
  return absl::OkStatus();
}

}  // namespace gemmd::client
