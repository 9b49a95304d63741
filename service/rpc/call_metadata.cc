#include "service/rpc/call_metadata.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "proto/checksum/checksum.h"

namespace gemmd::rpc {
namespace {

constexpr char kKey[] = "gemmd-idempotency-key";
constexpr size_t kLeastKeyBytes = 16;
constexpr size_t kMostKeyBytes = 64;

// What gRPC tells clients, as HTTP/2 counts it, and holds them to once they
// have acknowledged it.
constexpr int64_t kMaxBytes = 8 << 10;
constexpr int64_t kEntryBytes = 32;

}  // namespace

CallMetadata::Values CallMetadata::All(absl::string_view name) const {
  const auto [first, last] =
      context_.client_metadata().equal_range({name.data(), name.size()});
  Values values;
  for (auto at = first; at != last; ++at) {
    values.emplace_back(at->second.data(), at->second.size());
  }
  return values;
}

std::optional<absl::string_view> CallMetadata::One(
    absl::string_view name) const {
  const auto values = All(name);
  if (values.size() != 1) return std::nullopt;
  return values[0];
}

absl::Status CallMetadata::CheckSize() const {
  int64_t bytes = 0;
  for (const auto& [name, value] : context_.client_metadata()) {
    bytes += kEntryBytes + static_cast<int64_t>(name.size()) +
             static_cast<int64_t>(value.size());
  }
  if (bytes <= kMaxBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the call's metadata has ", bytes, " bytes, with ",
                   kEntryBytes, " for each entry; allowed: 0 to ", kMaxBytes));
}

absl::Status CallMetadata::Check() const {
  RETURN_IF_ERROR(CheckSize());
  const auto checksums = One(checksum::kMetadata);
  if (checksums && *checksums != checksum::kCrc32c) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the metadata ", checksum::kMetadata, " is \"",
        absl::CEscape(*checksums), "\"; allowed: ", checksum::kCrc32c));
  }
  const auto key = One(kKey);
  if (!key) return absl::OkStatus();
  const bool is_sized =
      key->size() >= kLeastKeyBytes && key->size() <= kMostKeyBytes;
  if (!is_sized || !absl::c_all_of(*key, absl::ascii_isgraph)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the metadata ", kKey, " has ",
        is_sized ? "a space, or a character that is not printable ASCII"
                 : absl::StrCat(key->size(), " characters"),
        "; allowed: ", kLeastKeyBytes, " to ", kMostKeyBytes,
        " printable ASCII characters without spaces, drawn at random"));
  }
  return absl::OkStatus();
}

int64_t CallMetadata::announced_bytes() const {
  int64_t bytes = 0;
  if (!absl::SimpleAtoi(One(kAnnouncement).value_or(""), &bytes)) return 0;
  return std::max<int64_t>(bytes, 0);
}

bool CallMetadata::has_checksums() const {
  return One(checksum::kMetadata).has_value();
}

std::string CallMetadata::idempotency_key() const {
  return std::string(One(kKey).value_or(""));
}

std::optional<TraceContext> CallMetadata::trace() const {
  const auto parent = One(kTraceparent);
  return parent ? ParseTraceparent(*parent) : std::nullopt;
}

}  // namespace gemmd::rpc
