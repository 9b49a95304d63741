// Bytes that lie in pieces, as a transport delivers them, by their position.
// Thread-compatible.
#ifndef GEMMD_SERVICE_ENGINE_POSITIONS_H_
#define GEMMD_SERVICE_ENGINE_POSITIONS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <vector>

#include "absl/types/span.h"

namespace gemmd::engine {

// The caller knows that the bytes he asks for are there, in any order: matrices
// of a batch may overlap, and their lines lie between each other.
class Positions {
 public:
  explicit Positions(absl::Span<const absl::Span<const char>> pieces)
      : pieces_(pieces) {
    starts_.reserve(pieces.size());
    for (const absl::Span<const char>& piece : pieces) {
      starts_.push_back(end_);
      end_ += std::ssize(piece);
    }
  }

  // Some bytes from `position` on, at least one and at most `most`.
  absl::Span<const char> At(int64_t position, int64_t most) {
    const int64_t in_piece = position - starts_[piece_];
    if (in_piece >= 0 && in_piece < std::ssize(pieces_[piece_])) {
      return pieces_[piece_].subspan(in_piece, most);
    }
    // Of pieces that begin there, all but the last one are empty.
    piece_ = std::ranges::upper_bound(starts_, position) - starts_.begin() - 1;
    return pieces_[piece_].subspan(position - starts_[piece_], most);
  }

  // `count` bytes from `position` on, or those of them that are there.
  std::vector<absl::Span<const char>> Cut(int64_t position, int64_t count) {
    std::vector<absl::Span<const char>> part;
    count = std::min(count, end_ - position);
    while (count > 0) {
      part.push_back(At(position, count));
      position += std::ssize(part.back());
      count -= std::ssize(part.back());
    }
    return part;
  }
  void Read(int64_t position, int64_t count, char* to) {
    while (count > 0) {
      const absl::Span<const char> bytes = At(position, count);
      std::memcpy(to, bytes.data(), bytes.size());
      to += bytes.size();
      position += std::ssize(bytes);
      count -= std::ssize(bytes);
    }
  }

 private:
  const absl::Span<const absl::Span<const char>> pieces_;
  std::vector<int64_t> starts_;  // Of the pieces.
  int64_t end_ = 0;              // Of the last piece.
  size_t piece_ = 0;             // That was asked for last.
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_POSITIONS_H_
