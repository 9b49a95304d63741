// The Checksum that ends a message (gemmd/v1/checksum.proto), on both sides of
// a call.
#ifndef GEMMD_PROTO_CHECKSUM_CHECKSUM_H_
#define GEMMD_PROTO_CHECKSUM_CHECKSUM_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gemmd::checksum {

// Of a call whose messages end with one.
inline constexpr char kMetadata[] = "gemmd-checksums";
inline constexpr char kCrc32c[] = "crc32c";

// Of a serialised Checksum.
inline constexpr size_t kBytes = 6;

// The CRC-32C of what had `crc` and then has `bytes`; that of nothing is 0.
uint32_t Extend(uint32_t crc, absl::string_view bytes);

// The serialised Checksum.
std::string Encode(uint32_t crc);

// DATA_LOSS unless `last`, which a message of `size` bytes ends with, is the
// Checksum of one whose bytes before it have `crc`.
absl::Status Check(absl::string_view last, size_t size, uint32_t crc);

}  // namespace gemmd::checksum

#endif  // GEMMD_PROTO_CHECKSUM_CHECKSUM_H_
