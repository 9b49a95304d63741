#include "jit/cache/ledger.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace gemmd::jit {
namespace {

constexpr char kMagic[] = "gemmd-ledger-1";
// -1 stands for what is not known.
constexpr int64_t kUnknown = -1;

std::optional<int64_t> Known(int64_t value) {
  if (value < 0) return {};
  return value;
}

}  // namespace

Ledger ReadLedger(int lock_file) {
  char bytes[128];
  const ssize_t got = pread(lock_file, bytes, sizeof(bytes), 0);
  if (got <= 0) return {};
  const std::vector<absl::string_view> words =
      absl::StrSplit(absl::string_view(bytes, static_cast<size_t>(got)),
                     absl::ByAnyChar(" \n"), absl::SkipEmpty());
  int64_t limit = kUnknown, used = kUnknown, changed_ns = 0;
  if (words.size() != 4 || words[0] != kMagic ||
      !absl::SimpleAtoi(words[1], &limit) ||
      !absl::SimpleAtoi(words[2], &used) ||
      !absl::SimpleAtoi(words[3], &changed_ns)) {
    return {};
  }
  return {.limit_bytes = Known(limit),
          .used_bytes = Known(used),
          .changed_ns = changed_ns};
}

void WriteLedger(int lock_file, const Ledger& ledger) {
  // Of one length, so that one write replaces the last one wholly.
  const std::string text = absl::StrFormat(
      "%s %20d %20d %20d\n", kMagic, ledger.limit_bytes.value_or(kUnknown),
      ledger.used_bytes.value_or(kUnknown), ledger.changed_ns);
  [[maybe_unused]] const ssize_t put =
      pwrite(lock_file, text.data(), text.size(), 0);
}

}  // namespace gemmd::jit
