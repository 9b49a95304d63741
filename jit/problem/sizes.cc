#include "jit/problem/sizes.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"

namespace gemmd::jit {
namespace {

// Of the smallest tile, which may lie on its side.
constexpr double kTileRows = 64;
constexpr double kTileColumns = 8;
// Of an f32 operand in bf16 terms, a power of two.
constexpr int64_t kMostPlanes = 4;
// No memory holds as many, and their bytes, with padding and in planes, are
// still counted in 64 bits.
constexpr double kMaxElements = 0x1p56;

double TilesOf(int64_t batch, int64_t rows, int64_t columns) {
  return static_cast<double>(batch) *
         std::ceil(static_cast<double>(rows) / kTileRows) *
         std::ceil(static_cast<double>(columns) / kTileColumns);
}

absl::Status CheckAtMost(double value, double most, absl::string_view name,
                         absl::string_view condition = "") {
  if (value <= most) return absl::OkStatus();
  // All digits where they are known.
  const std::string text = value < kMaxElements
                               ? absl::StrCat(static_cast<int64_t>(value))
                               : absl::StrCat(value);
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", text, "; allowed", condition, ": 0 to ",
                   static_cast<int64_t>(most)));
}

absl::Status CheckElements(const MatrixLayout& layout, absl::string_view name) {
  return CheckAtMost(static_cast<double>(layout.count) *
                         static_cast<double>(layout.rows) *
                         static_cast<double>(layout.columns),
                     kMaxElements, name);
}

}  // namespace

int64_t MaxSparseDepth(const Problem& problem) {
  const DataType type =
      problem.sparse == Sparse::kA ? problem.a_type : problem.b_type;
  return kMaxDimension / (BitsOf(type) == 32 ? 4 : 2);
}

double MostTiles(const Problem& problem) {
  return std::max(TilesOf(problem.batch, problem.m, problem.n),
                  TilesOf(problem.batch, problem.n, problem.m));
}

absl::Status CheckSizes(const Problem& problem) {
  if (!problem.writes()) return absl::OkStatus();  // Nor is anything planned.
  const int64_t m = problem.m, n = problem.n, batch = problem.batch;
  RETURN_IF_ERROR(CheckAtMost(
      TilesOf(batch, m, n), kMaxTiles,
      "problem.batch * ceil(problem.m / 64) * ceil(problem.n / 8)"));
  RETURN_IF_ERROR(CheckAtMost(
      TilesOf(batch, n, m), kMaxTiles,
      "problem.batch * ceil(problem.n / 64) * ceil(problem.m / 8)"));
  if (problem.a_type == DataType::kF32 &&
      problem.precision == Precision::kDefault) {
    RETURN_IF_ERROR(CheckAtMost(static_cast<double>(batch),
                                kMaxTiles / kMostPlanes, "problem.batch",
                                " with a_type f32, precision default"));
  }
  if (problem.sparse != Sparse::kNone) {
    RETURN_IF_ERROR(
        CheckAtMost(static_cast<double>(problem.k),
                    static_cast<double>(MaxSparseDepth(problem)), "problem.k",
                    absl::StrCat(" with sparse ", Name(problem.sparse))));
  }
  RETURN_IF_ERROR(CheckElements(
      problem.a(),
      "problem.batch * problem.m * problem.k, the elements of A,"));
  return CheckElements(
      problem.b(), "problem.batch * problem.k * problem.n, the elements of B,");
}

}  // namespace gemmd::jit
