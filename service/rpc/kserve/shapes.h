// Shapes of inputs as numpy.matmul understands them. Pure functions.
#ifndef GEMMD_SERVICE_RPC_KSERVE_SHAPES_H_
#define GEMMD_SERVICE_RPC_KSERVE_SHAPES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace gemmd::rpc::kserve {

using Dimensions = std::vector<int64_t>;

inline constexpr size_t kMaxRank = 16;

// The elements of an input, and their number; INVALID_ARGUMENT when a dimension
// or that is beyond what a product can have.
absl::StatusOr<int64_t> CountOf(absl::Span<const int64_t> shape,
                                absl::string_view input);

// Matrices: a batch of `rows` x `columns`.
struct Matrices {
  Dimensions batch;
  int64_t rows = 0;
  int64_t columns = 0;
  bool was_vector = false;  // Of which one side was added.

  int64_t count() const;
};

// A vector is a row of A and a column of B. INVALID_ARGUMENT for a number.
absl::StatusOr<Matrices> AsA(absl::Span<const int64_t> shape);
absl::StatusOr<Matrices> AsB(absl::Span<const int64_t> shape);

// What a product of both is. INVALID_ARGUMENT when they do not go together.
absl::StatusOr<Matrices> ProductOf(const Matrices& a, const Matrices& b);
// Its shape, without the sides that vectors had been given.
Dimensions ShapeOf(const Matrices& d, const Matrices& a, const Matrices& b);

// How the matrices of an operand serve those of a product.
enum class Serves {
  kEach,      // One each, in order.
  kAll,       // One all of them.
  kRepeated,  // Some several times: as PlacesOf says.
};
Serves HowServes(const Matrices& operand, const Matrices& product);
// Which matrix of the operand each of the product has.
std::vector<int64_t> PlacesOf(const Matrices& operand, const Matrices& product);

}  // namespace gemmd::rpc::kserve

#endif  // GEMMD_SERVICE_RPC_KSERVE_SHAPES_H_
