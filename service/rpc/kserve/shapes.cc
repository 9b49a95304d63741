#include "service/rpc/kserve/shapes.h"

#include <algorithm>

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "jit/problem/problem.h"
#include "service/rpc/kserve/text.h"

namespace gemmd::rpc::kserve {
namespace {

// Nothing that could be sent has more.
constexpr int64_t kMaxElements = int64_t{1} << 40;

int64_t Product(absl::Span<const int64_t> dimensions) {
  int64_t product = 1;
  for (const int64_t size : dimensions) product *= size;
  return product;
}

absl::Status NoMatrix(absl::string_view input) {
  return absl::InvalidArgumentError(
      absl::StrCat("unexpected shape [] for input '", input,
                   "'; allowed: a matrix, a vector or a batch of matrices"));
}

}  // namespace

absl::StatusOr<int64_t> CountOf(absl::Span<const int64_t> shape,
                                absl::string_view input) {
  if (shape.size() > kMaxRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("the shape of input ", Quoted(input), " has ",
                     shape.size(), " dimensions; allowed: 0 to ", kMaxRank));
  }
  // However many of them a dimension of 0 makes nothing of: their products in
  // parts are numbers too.
  absl::int128 most = 1;
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0 || size > jit::kMaxDimension) {
      return absl::InvalidArgumentError(absl::StrCat(
          "unexpected shape ", Shown(shape), " for input ", Quoted(input),
          "; allowed: dimensions from 0 to ", jit::kMaxDimension));
    }
    empty |= size == 0;
    most *= std::max<int64_t>(size, 1);
    if (most > kMaxElements) {
      return absl::InvalidArgumentError(absl::StrCat(
          "unexpected shape ", Shown(shape), " for input ", Quoted(input),
          "; allowed: up to ", kMaxElements, " elements"));
    }
  }
  return empty ? 0 : static_cast<int64_t>(most);
}

int64_t Matrices::count() const { return Product(batch); }

absl::StatusOr<Matrices> AsA(absl::Span<const int64_t> shape) {
  if (shape.empty()) return NoMatrix("A");
  if (shape.size() == 1) return Matrices{{}, 1, shape[0], true};
  const size_t rank = shape.size();
  return Matrices{Dimensions(shape.begin(), shape.end() - 2), shape[rank - 2],
                  shape[rank - 1]};
}

absl::StatusOr<Matrices> AsB(absl::Span<const int64_t> shape) {
  if (shape.empty()) return NoMatrix("B");
  if (shape.size() == 1) return Matrices{{}, shape[0], 1, true};
  return AsA(shape);
}

absl::StatusOr<Matrices> ProductOf(const Matrices& a, const Matrices& b) {
  if (a.columns != b.rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected shape for input 'A': its matrices have ",
                     a.columns, " columns, and those of B ", b.rows, " rows"));
  }
  Matrices d{Dimensions(std::max(a.batch.size(), b.batch.size())), a.rows,
             b.columns};
  for (size_t i = 0; i < d.batch.size(); ++i) {
    const auto from = [i](const Dimensions& batch) {
      return i < batch.size() ? batch[batch.size() - 1 - i] : 1;
    };
    const int64_t of_a = from(a.batch);
    const int64_t of_b = from(b.batch);
    if (of_a != of_b && of_a != 1 && of_b != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "unexpected shape for input 'A': its batch ", Shown(a.batch),
          " does not go with that of B, ", Shown(b.batch)));
    }
    d.batch[d.batch.size() - 1 - i] = of_a == 1 ? of_b : of_a;
  }
  ASSIGN_OR_RETURN(const int64_t count, CountOf(d.batch, "D"));
  if (count > jit::kMaxDimension) {
    return absl::InvalidArgumentError(absl::StrCat("the batch has ", count,
                                                   " products; allowed: 0 to ",
                                                   jit::kMaxDimension));
  }
  return d;
}

Dimensions ShapeOf(const Matrices& d, const Matrices& a, const Matrices& b) {
  Dimensions shape = d.batch;
  if (!a.was_vector) shape.push_back(d.rows);
  if (!b.was_vector) shape.push_back(d.columns);
  return shape;
}

Serves HowServes(const Matrices& operand, const Matrices& product) {
  const int64_t own = operand.count();
  const int64_t all = product.count();
  if (own == all) return Serves::kEach;
  return own == 1 ? Serves::kAll : Serves::kRepeated;
}

std::vector<int64_t> PlacesOf(const Matrices& operand,
                              const Matrices& product) {
  std::vector<int64_t> places(product.count());
  const size_t missing = product.batch.size() - operand.batch.size();
  for (int64_t i = 0; i < static_cast<int64_t>(places.size()); ++i) {
    // From the last dimension to the first, of which each step is as wide as
    // all behind it.
    int64_t rest = i;
    int64_t stride = 1;
    for (size_t at = product.batch.size(); at-- > missing;) {
      const int64_t size = operand.batch[at - missing];
      if (size != 1) places[i] += rest % product.batch[at] * stride;
      rest /= product.batch[at];
      stride *= size;
    }
  }
  return places;
}

}  // namespace gemmd::rpc::kserve
