#include "jit/base/frame.h"

#include "absl/strings/str_cat.h"
#include "jit/base/record.h"
#include "jit/base/sha256.h"
#include "jit/base/status.h"

namespace gemmd::jit {
namespace {

constexpr size_t kMagicBytes = 8;
constexpr size_t kHeaderBytes = kMagicBytes + 4 + 4 + 8;

// Takes the header off `bytes`; returns the length of the body.
absl::StatusOr<uint64_t> TakeHeader(const FrameKind& kind,
                                    absl::string_view& bytes) {
  if (bytes.size() < kHeaderBytes) {
    return absl::DataLossError("entry is shorter than its frame");
  }
  const absl::string_view magic = bytes.substr(0, kMagicBytes);
  bytes.remove_prefix(kMagicBytes);
  uint32_t format = 0, reserved = 0;
  uint64_t length = 0;
  CHECK(TakeU32(bytes, format) && TakeU32(bytes, reserved) &&
        TakeU64(bytes, length));
  if (magic != kind.magic) {
    return absl::DataLossError(
        absl::StrCat("entry does not start with ", kind.magic));
  }
  if (format != kind.format || reserved != 0) {
    return absl::UnimplementedError(absl::StrCat("entry is of format ", format,
                                                 " instead of ", kind.format));
  }
  return length;
}

}  // namespace

std::string Frame(const FrameKind& kind, absl::string_view body) {
  CHECK(kind.magic.size() == kMagicBytes);
  std::string bytes(kind.magic);
  AppendU32(bytes, kind.format);
  AppendU32(bytes, 0);
  AppendU64(bytes, body.size());
  bytes.append(body.data(), body.size());
  return bytes + Sha256Of(bytes);
}

absl::StatusOr<absl::string_view> Unframe(const FrameKind& kind,
                                          absl::string_view bytes) {
  if (bytes.size() < kHeaderBytes + kSha256Bytes) {
    return absl::DataLossError("entry is shorter than its frame");
  }
  const absl::string_view checked =
      bytes.substr(0, bytes.size() - kSha256Bytes);
  // First, so that what is damaged passes for no other format.
  if (Sha256Of(checked) != bytes.substr(checked.size())) {
    return absl::DataLossError("entry's checksum does not match");
  }
  absl::string_view rest = checked;
  ASSIGN_OR_RETURN(const uint64_t length, TakeHeader(kind, rest));
  if (length != rest.size()) {
    return absl::DataLossError(absl::StrCat("entry's body has ", rest.size(),
                                            " bytes instead of ", length));
  }
  return rest;
}

absl::StatusOr<absl::string_view> UnframeStart(const FrameKind& kind,
                                               absl::string_view bytes) {
  ASSIGN_OR_RETURN(const uint64_t length, TakeHeader(kind, bytes));
  return bytes.substr(0, length);
}

}  // namespace gemmd::jit
