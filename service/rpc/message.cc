#include "service/rpc/message.h"

#include <algorithm>
#include <utility>

#include "jit/base/status.h"

namespace gemmd::rpc {

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
  size_ += SizeOf(pieces);
  held_bytes_ += message.size();
  parts_.push_back({std::move(message), std::move(pieces)});
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
  const grpc::Slice slice(Join(Front(size_)));
  Drop(size_);
  grpc::ByteBuffer buffer(&slice, 1);
  Message copy(buffer);
  Pieces pieces = copy.pieces();
  Append(std::move(copy), std::move(pieces));
}

}  // namespace gemmd::rpc
