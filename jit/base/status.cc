#include "jit/base/status.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace gemmd::jit {

absl::Status OfElement(absl::string_view of, size_t i,
                       const absl::Status& error) {
  absl::Status named(error.code(),
                     absl::StrCat(of, "[", i, "]: ", error.message()));
  error.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    named.SetPayload(url, payload);
  });
  return named;
}

void CheckFailed(const char* file, int line, absl::string_view condition) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %.*s\n", file, line,
               static_cast<int>(condition.size()), condition.data());
  std::abort();
}

}  // namespace gemmd::jit
