#include "jit/cache/bundle.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "jit/base/sha256.h"
#include "jit/base/status.h"

namespace gemmd::jit {
namespace {

constexpr char kManifest[] = "manifest";
constexpr char kManifestHead[] = "gemmd bundle 1\n";
constexpr size_t kBlock = 512;

// A header of POSIX 1003.1-1988 (ustar). Numbers are octal text. Owner and
// time are constant: the same members give the same bytes.
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
static_assert(sizeof(Header) == kBlock);

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
  for (size_t i = 0; i < kBlock; ++i) {
    sum += reinterpret_cast<const unsigned char*>(&header)[i];
  }
  const std::string text = absl::StrFormat("%06o", sum);
  std::memcpy(header.checksum, text.data(), 6);
  header.checksum[6] = '\0';
  return header;
}

void AppendMember(std::string& bundle, absl::string_view name,
                  absl::string_view bytes) {
  const Header header = MakeHeader(name, bytes.size());
  bundle.append(reinterpret_cast<const char*>(&header), kBlock);
  bundle.append(bytes.data(), bytes.size());
  bundle.append((kBlock - bytes.size() % kBlock) % kBlock, '\0');
}

std::string Manifest(const BundleMembers& members) {
  std::string text = kManifestHead;
  for (const auto& [name, bytes] : members) {
    absl::StrAppend(&text, absl::BytesToHexString(Sha256Of(bytes)), "  ", name,
                    "\n");
  }
  return text;
}

struct Member {
  std::string name;
  absl::string_view bytes;
};

// Takes the next member off `bundle`. Only headers that this file writes are
// taken.
absl::StatusOr<Member> TakeMember(absl::string_view& bundle) {
  if (bundle.size() < kBlock) {
    return absl::DataLossError("bundle ends inside a header");
  }
  Header header;
  std::memcpy(&header, bundle.data(), kBlock);
  Member member;
  member.name.assign(header.name, strnlen(header.name, sizeof(header.name)));
  uint64_t size = 0;
  for (size_t i = 0; i + 1 < sizeof(header.size); ++i) {
    if (header.size[i] < '0' || header.size[i] > '7') {
      return absl::DataLossError("bundle has a member without a size");
    }
    size = size * 8 + static_cast<uint64_t>(header.size[i] - '0');
  }
  if (member.name.size() >= sizeof(header.name)) {
    return absl::DataLossError("bundle has a member with an endless name");
  }
  const Header expected = MakeHeader(member.name, size);
  if (std::memcmp(&header, &expected, kBlock) != 0) {
    return absl::DataLossError("bundle has a header that is not its own");
  }
  bundle.remove_prefix(kBlock);
  if (size > bundle.size()) {
    return absl::DataLossError("bundle ends inside a member");
  }
  member.bytes = bundle.substr(0, size);
  const size_t padded = (size + kBlock - 1) / kBlock * kBlock;
  if (padded > bundle.size() ||
      bundle.substr(size, padded - size).find_first_not_of('\0') !=
          bundle.npos) {
    return absl::DataLossError("bundle has a member with wrong padding");
  }
  bundle.remove_prefix(padded);
  return member;
}

}  // namespace

std::string EncodeBundle(const BundleMembers& members) {
  std::string bundle;
  for (const auto& [name, bytes] : members) AppendMember(bundle, name, bytes);
  AppendMember(bundle, kManifest, Manifest(members));
  bundle.append(2 * kBlock, '\0');  // The end of an archive.
  return bundle;
}

absl::StatusOr<BundleMembers> DecodeBundle(absl::string_view bytes) {
  BundleMembers members;
  while (true) {
    ASSIGN_OR_RETURN(const Member member, TakeMember(bytes));
    if (member.name == kManifest) {
      if (member.bytes != Manifest(members)) {
        return absl::DataLossError("bundle's manifest does not match");
      }
      break;
    }
    if (!members.empty() && member.name <= members.rbegin()->first) {
      return absl::DataLossError("bundle's members are out of order");
    }
    members.emplace(member.name, member.bytes);
  }
  if (bytes != std::string(2 * kBlock, '\0')) {
    return absl::DataLossError("bundle does not end after its manifest");
  }
  return members;
}

}  // namespace gemmd::jit
