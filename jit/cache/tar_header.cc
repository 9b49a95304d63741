#include "jit/cache/tar_header.h"

#include <cstring>

#include "absl/strings/str_format.h"
#include "jit/base/status.h"

namespace gemmd::jit {
namespace {

// Numbers are octal text.
struct Header {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char mtime[12];
  char checksum[8];
  char type;
  char link[100];
  char magic[6];
  char version[2];
  char owner[32];
  char group[32];
  char major[8];
  char minor[8];
  char prefix[155];
  char padding[12];
};
static_assert(sizeof(Header) == kTarBlock);

template <size_t size>
void SetOctal(char (&field)[size], uint64_t value) {
  const std::string text =
      absl::StrFormat("%0*o", static_cast<int>(size) - 1, value);
  CHECK(text.size() == size - 1);
  std::memcpy(field, text.data(), text.size());
}

Header MakeHeader(absl::string_view name, uint64_t size) {
  CHECK(name.size() < sizeof(Header::name));
  Header header = {};
  std::memcpy(header.name, name.data(), name.size());
  SetOctal(header.mode, 0644);
  SetOctal(header.uid, 0);
  SetOctal(header.gid, 0);
  SetOctal(header.size, size);
  SetOctal(header.mtime, 0);
  header.type = '0';
  std::memcpy(header.magic, "ustar", 6);
  std::memcpy(header.version, "00", 2);
  // The sum is taken with spaces in its own place.
  std::memset(header.checksum, ' ', sizeof(header.checksum));
  uint64_t sum = 0;
  for (size_t i = 0; i < kTarBlock; ++i) {
    sum += reinterpret_cast<const unsigned char*>(&header)[i];
  }
  const std::string text = absl::StrFormat("%06o", sum);
  std::memcpy(header.checksum, text.data(), 6);
  header.checksum[6] = '\0';
  return header;
}

}  // namespace

std::string EncodeTarHeader(const TarMember& member) {
  const Header header = MakeHeader(member.name, member.bytes);
  return std::string(reinterpret_cast<const char*>(&header), kTarBlock);
}

absl::StatusOr<TarMember> DecodeTarHeader(absl::string_view block) {
  if (block.size() != kTarBlock) {
    return absl::DataLossError("bundle ends inside a header");
  }
  Header header;
  std::memcpy(&header, block.data(), kTarBlock);
  TarMember member;
  member.name.assign(header.name, strnlen(header.name, sizeof(header.name)));
  if (member.name.size() >= sizeof(header.name)) {
    return absl::DataLossError("bundle has a member with an endless name");
  }
  for (size_t i = 0; i + 1 < sizeof(header.size); ++i) {
    if (header.size[i] < '0' || header.size[i] > '7') {
      return absl::DataLossError("bundle has a member without a size");
    }
    member.bytes =
        member.bytes * 8 + static_cast<uint64_t>(header.size[i] - '0');
  }
  if (EncodeTarHeader(member) != block) {
    return absl::DataLossError("bundle has a header that is not its own");
  }
  return member;
}

}  // namespace gemmd::jit
