#include "service/rpc/trace_context.h"

#include "absl/strings/str_cat.h"

namespace gemmd::rpc {
namespace {

bool IsHex(absl::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == text.npos;
}

bool IsZero(absl::string_view text) {
  return text.find_first_not_of('0') == text.npos;
}

}  // namespace

std::string TraceContext::Header() const {
  return absl::StrCat("00-", trace_id, "-", parent_id, "-", flags);
}

std::optional<TraceContext> ParseTraceparent(absl::string_view header) {
  // "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
  constexpr size_t kSize = 55;
  if (header.size() < kSize || header[2] != '-' || header[35] != '-' ||
      header[52] != '-') {
    return std::nullopt;
  }
  const absl::string_view version = header.substr(0, 2);
  const bool longer = header.size() > kSize;
  if (!IsHex(version) || version == "ff" ||
      (longer && (version == "00" || header[kSize] != '-'))) {
    return std::nullopt;
  }
  const absl::string_view trace = header.substr(3, 32);
  const absl::string_view parent = header.substr(36, 16);
  const absl::string_view flags = header.substr(53, 2);
  if (!IsHex(trace) || !IsHex(parent) || !IsHex(flags) || IsZero(trace) ||
      IsZero(parent)) {
    return std::nullopt;
  }
  return TraceContext{std::string(trace), std::string(parent),
                      std::string(flags)};
}

}  // namespace gemmd::rpc
