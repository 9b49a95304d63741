#include "service/rpc/checksums.h"

#include <algorithm>
#include <string>
#include <vector>

#include "proto/checksum/checksum.h"

namespace gemmd::rpc {
namespace {

// Some tenths of a millisecond.
constexpr size_t kBytesAtOnce = 4 << 20;

Async<uint32_t> Crc32c(EventLoop& loop, absl::Span<const Piece> pieces) {
  uint32_t crc = 0;
  size_t left = kBytesAtOnce;
  for (Piece piece : pieces) {
    while (!piece.empty()) {
      const Piece part = piece.first(std::min(piece.size(), left));
      crc = checksum::Extend(crc, {part.data(), part.size()});
      piece.remove_prefix(part.size());
      left -= part.size();
      if (left > 0) continue;
      co_await Sleep(loop, absl::ZeroDuration());
      left = kBytesAtOnce;
    }
  }
  co_return crc;
}

}  // namespace

Async<absl::Status> TakeChecksum(EventLoop& loop, Message& message) {
  const auto size = static_cast<size_t>(message.size());
  const std::string last = message.TakeLast(checksum::kBytes);
  const uint32_t crc = co_await Crc32c(loop, message.pieces());
  co_return checksum::Check(last, size, crc);
}

Async<grpc::ByteBuffer> AddChecksum(EventLoop& loop,
                                    const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  CHECK(message.Dump(&slices).ok());  // Takes references, copies nothing.
  Pieces pieces;
  for (const grpc::Slice& slice : slices) {
    pieces.push_back(
        {reinterpret_cast<const char*>(slice.begin()), slice.size()});
  }
  const uint32_t crc = co_await Crc32c(loop, pieces);
  slices.emplace_back(checksum::Encode(crc));
  co_return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace gemmd::rpc
