#include "service/rpc/message.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "jit/base/status.h"

namespace gemmd::rpc {
namespace {

constexpr uintptr_t kFrameHeaderBytes = 9;
// Clients send frames of 16 KiB, several calls in turn; proxies less at a time.
constexpr int64_t kLeastRunBytes = 4 << 10;
// Of a message that waits for others behind it. What takes no more costs more
// to receive than to copy.
constexpr int64_t kLeastKeptBytes = 16 << 10;

// Whether `pieces` keep much that is none of theirs. gRPC keeps a piece by the
// buffer in which it came, of up to 64 KiB, with whatever else came there: 64
// bytes of a message here and there were a gigabyte of what had long been used.
// Those that came on end share a buffer; the smallest are copies.
bool AreScattered(absl::Span<const Piece> pieces, int64_t size) {
  int64_t runs = 0;
  uintptr_t end = 0;
  for (const Piece& piece : pieces) {
    if (piece.size() <= GRPC_SLICE_INLINED_SIZE) continue;
    const auto begin = reinterpret_cast<uintptr_t>(piece.data());
    if (begin - end > kFrameHeaderBytes) ++runs;  // Or before it: wraps.
    end = begin + piece.size();
  }
  return runs > 1 && size < runs * kLeastRunBytes;
}

}  // namespace

int64_t SizeOf(absl::Span<const Piece> pieces) {
  int64_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.size();
  return sum;
}

std::string Join(absl::Span<const Piece> pieces) {
  std::string joined;
  joined.reserve(SizeOf(pieces));
  for (const Piece& piece : pieces) joined.append(piece.data(), piece.size());
  return joined;
}

std::string Join(const grpc::ByteBuffer& message) {
  grpc::Slice whole;
  CHECK(message.DumpToSingleSlice(&whole).ok());
  return {reinterpret_cast<const char*>(whole.begin()), whole.size()};
}

Message::Message(grpc::ByteBuffer& buffer)
    : buffer_(std::make_unique<grpc::ByteBuffer>()) {
  buffer_->Swap(&buffer);
  Look();
  if (!AreScattered(pieces_, size_)) return;
  grpc::Slice whole;
  CHECK(buffer_->DumpToSingleSlice(&whole).ok());
  grpc::ByteBuffer copy(&whole, 1);
  buffer_->Swap(&copy);
  Look();
}

void Message::Look() {
  pieces_.clear();
  size_ = 0;
  CHECK(buffer_->Dump(&slices_).ok());  // Takes references, copies nothing.
  pieces_.reserve(slices_.size());
  for (const grpc::Slice& slice : slices_) {
    if (slice.size() == 0) continue;
    pieces_.push_back(
        {reinterpret_cast<const char*>(slice.begin()), slice.size()});
    size_ += slice.size();
  }
}

std::string Message::TakeLast(int64_t count) {
  std::string last;
  while (!pieces_.empty() && static_cast<int64_t>(last.size()) < count) {
    Piece& piece = pieces_.back();
    const size_t part = std::min(piece.size(), count - last.size());
    last.insert(0, piece.data() + piece.size() - part, part);
    piece.remove_suffix(part);
    if (piece.empty()) pieces_.pop_back();
  }
  size_ -= static_cast<int64_t>(last.size());
  return last;
}

void PieceQueue::Append(Message message, Pieces pieces) {
  std::erase_if(pieces, [](const Piece& piece) { return piece.empty(); });
  if (pieces.empty()) return;
  // Of many that are so small, each may keep a buffer of its own.
  if (message.size() < kLeastKeptBytes) return AppendCopy(Join(pieces));
  Keep(std::move(message), std::move(pieces));
}

void PieceQueue::Keep(Message message, Pieces pieces) {
  size_ += SizeOf(pieces);
  held_bytes_ += message.size();
  parts_.push_back({std::move(message), std::move(pieces)});
}

void PieceQueue::AppendCopy(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  grpc::ByteBuffer buffer(&slice, 1);
  Message copy(buffer);
  Pieces pieces = copy.pieces();
  Keep(std::move(copy), std::move(pieces));
}

Pieces PieceQueue::Front(int64_t count) const {
  Pieces front;
  for (auto part = parts_.begin(); count > 0; ++part) {
    CHECK(part != parts_.end());
    for (const Piece& piece : part->pieces) {
      if (count == 0) break;
      front.push_back(piece.first(std::min<size_t>(count, piece.size())));
      count -= front.back().size();
    }
  }
  return front;
}

void PieceQueue::Drop(int64_t count) {
  size_ -= count;
  while (count > 0) {
    CHECK(!parts_.empty());
    Pieces& pieces = parts_.front().pieces;
    size_t gone = 0;
    while (gone < pieces.size() &&
           static_cast<int64_t>(pieces[gone].size()) <= count) {
      count -= pieces[gone++].size();
    }
    pieces.erase(pieces.begin(), pieces.begin() + gone);
    if (pieces.empty()) {
      held_bytes_ -= parts_.front().owner.size();
      parts_.pop_front();
    } else if (count > 0) {
      pieces.front().remove_prefix(count);
      count = 0;
    }
  }
}

void PieceQueue::Detach() {
  if (size_ == held_bytes_) return;
  const std::string left = Join(Front(size_));
  Drop(size_);
  if (!left.empty()) AppendCopy(left);
}

}  // namespace gemmd::rpc
