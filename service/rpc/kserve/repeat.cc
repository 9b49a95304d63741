#include "service/rpc/kserve/repeat.h"

#include <algorithm>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "jit/base/status.h"

namespace gemmd::rpc::kserve {
namespace {

constexpr int64_t kMaxMatrices = 65536;

// Bytes `first` to `first + size` of `pieces`, which begin at `starts`.
void AddRange(const Pieces& pieces, const std::vector<int64_t>& starts,
              int64_t first, int64_t size, Pieces& to) {
  auto at = std::upper_bound(starts.begin(), starts.end(), first) -
            starts.begin() - 1;
  while (size > 0) {
    const Piece rest = pieces[at].subspan(first - starts[at]);
    to.push_back(rest.first(std::min<size_t>(rest.size(), size)));
    first += static_cast<int64_t>(to.back().size());
    size -= static_cast<int64_t>(to.back().size());
    ++at;
  }
}

}  // namespace

absl::StatusOr<Pieces> Repeat(const Input& input, const Matrices& operand,
                              const Matrices& product, int64_t max_bytes) {
  const int64_t count = product.count();
  if (count > kMaxMatrices) {
    return absl::InvalidArgumentError(absl::StrCat(
        "input '", input.name, "' is to serve ", count,
        " products, with several matrices each of which serves several; "
        "allowed: ",
        kMaxMatrices));
  }
  const int64_t matrix_bytes =
      operand.count() == 0 ? 0 : input.bytes() / operand.count();
  const absl::int128 bytes = absl::int128(matrix_bytes) * count;
  if (bytes > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "input '", input.name, "' has ", matrix_bytes, " bytes for each of ",
        count, " products; the limit of all of them is ", max_bytes));
  }
  Pieces repeated;
  if (matrix_bytes == 0 || count == 0) return repeated;
  std::vector<int64_t> starts;
  int64_t start = 0;
  for (const Piece& piece : input.data) {
    starts.push_back(start);
    start += static_cast<int64_t>(piece.size());
  }
  for (const int64_t place : PlacesOf(operand, product)) {
    AddRange(input.data, starts, place * matrix_bytes, matrix_bytes, repeated);
  }
  return repeated;
}

}  // namespace gemmd::rpc::kserve
