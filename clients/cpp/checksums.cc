#include "clients/cpp/checksums.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/checksum/checksum.h"

namespace gemmd::client {
namespace {

absl::string_view Bytes(const grpc::Slice& slice) {
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

}  // namespace

void AnnounceChecksums(grpc::ClientContext& context) {
  context.AddMetadata(checksum::kMetadata, checksum::kCrc32c);
}

grpc::ByteBuffer AddChecksum(const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  // Fails for none: then there is nothing to guard either.
  (void)message.Dump(&slices);
  uint32_t crc = 0;
  for (const grpc::Slice& slice : slices) {
    crc = checksum::Extend(crc, Bytes(slice));
  }
  slices.emplace_back(checksum::Encode(crc));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::Status CheckChecksum(const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  (void)message.Dump(&slices);  // As above.
  size_t left = message.Valid() ? message.Length() : 0;
  const size_t size = left;
  uint32_t crc = 0;
  std::string last;
  for (const grpc::Slice& slice : slices) {
    const absl::string_view bytes = Bytes(slice);
    const size_t before = left > checksum::kBytes
                              ? std::min(bytes.size(), left - checksum::kBytes)
                              : 0;
    crc = checksum::Extend(crc, bytes.substr(0, before));
    absl::StrAppend(&last, bytes.substr(before));
    left -= bytes.size();
  }
  return checksum::Check(last, size, crc);
}

}  // namespace gemmd::client
