#include "proto/checksum/checksum.h"

#include <isa-l/crc.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gemmd::checksum {
namespace {

// Field 2047 of 32 bits.
constexpr absl::string_view kTag = "\xFD\x7F";
// The library counts in ints.
constexpr size_t kMostAtOnce = 1 << 30;

}  // namespace

uint32_t Extend(uint32_t crc, absl::string_view bytes) {
  crc = ~crc;
  while (!bytes.empty()) {
    const size_t count = std::min(bytes.size(), kMostAtOnce);
    // It reads only.
    auto* const data =
        reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
    crc = crc32_iscsi(data, static_cast<int>(count), crc);
    bytes.remove_prefix(count);
  }
  return ~crc;
}

std::string Encode(uint32_t crc) {
  std::string encoded(kTag);
  for (int shift = 0; shift < 32; shift += 8) {
    encoded.push_back(static_cast<char>(crc >> shift));
  }
  return encoded;
}

absl::Status Check(absl::string_view last, size_t size, uint32_t crc) {
  if (last == Encode(crc)) return absl::OkStatus();
  if (last.substr(0, kTag.size()) != kTag || last.size() != kBytes) {
    return absl::DataLossError(
        absl::StrCat("a message of ", size,
                     " bytes does not end with a Checksum, as the "
                     "metadata ",
                     kMetadata,
                     " says: it was damaged on its way, or its "
                     "sender added none"));
  }
  return absl::DataLossError(absl::StrFormat(
      "a message of %d bytes was damaged on its way: the CRC-32C of what came "
      "is %08x, and its Checksum is of another",
      size, crc));
}

}  // namespace gemmd::checksum
