// Reads bytes that lie in pieces as if they were one run. Thread-compatible.
#ifndef GEMMD_SERVICE_HOST_PIECE_READER_H_
#define GEMMD_SERVICE_HOST_PIECE_READER_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "jit/base/status.h"

namespace gemmd::host {

class PieceReader {
 public:
  explicit PieceReader(absl::Span<const absl::Span<const char>> pieces)
      : pieces_(pieces) {}

  // Copies the next `count` bytes; the caller knows that they are there.
  void Read(char* to, int64_t count) {
    Advance(count, [&](const char* from, int64_t part) {
      std::memcpy(to, from, part);
      to += part;
    });
  }

  void Skip(int64_t count) {
    Advance(count, [](const char*, int64_t) {});
  }

 private:
  template <typename Visit>
  void Advance(int64_t count, Visit visit) {
    while (count > 0) {
      CHECK(!pieces_.empty());
      const absl::Span<const char> rest = pieces_.front().subspan(position_);
      const int64_t part = std::min<int64_t>(count, rest.size());
      if (part > 0) visit(rest.data(), part);  // An empty piece has no address.
      count -= part;
      position_ += part;
      if (position_ == static_cast<int64_t>(pieces_.front().size())) {
        pieces_.remove_prefix(1);
        position_ = 0;
      }
    }
  }

  absl::Span<const absl::Span<const char>> pieces_;
  int64_t position_ = 0;  // In the first piece.
};

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_PIECE_READER_H_
