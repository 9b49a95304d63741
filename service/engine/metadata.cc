#include "service/engine/metadata.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "jit/problem/metadata.h"
#include "service/engine/positions.h"

namespace gemmd::engine {
namespace {

// The line of a matrix that a chunk belongs to.
absl::Status Refusal(absl::string_view name, const jit::MatrixLayout& layout,
                     int64_t line, int64_t chunk, int metadata) {
  const int64_t of_one = layout.matrix_lines();
  const int width = jit::ChunkOf(layout.type);
  return absl::InvalidArgumentError(absl::StrCat(
      name, " has metadata 0x", absl::Hex(metadata), " for k ", chunk * width,
      " to ", chunk * width + width - 1, " of ",
      layout.order == jit::Order::kRowMajor ? "row " : "column ", line % of_one,
      layout.count == 1 ? "" : absl::StrCat(" of matrix ", line / of_one),
      "; allowed: ", jit::LegalMetadata(layout.type)));
}

// `bytes` lie in line `line` from byte `at` of its metadata on.
absl::Status CheckPart(absl::string_view name, const jit::MatrixLayout& layout,
                       int64_t line, int64_t at, absl::Span<const char> bytes) {
  const int64_t chunk = jit::FirstIllegalChunk(layout.type, bytes);
  // Behind an odd number of chunks, half a byte may hold anything.
  const int64_t chunks = layout.width() / jit::ChunkOf(layout.type);
  if (chunk == 2 * std::ssize(bytes) || 2 * at + chunk >= chunks) {
    return absl::OkStatus();
  }
  return Refusal(name, layout, line, 2 * at + chunk,
                 jit::MetadataOf(bytes.data(), chunk));
}

absl::Status Check(absl::string_view name, const jit::MatrixLayout& layout,
                   Positions& positions, int64_t first_position,
                   int64_t pitch_bytes, device::LineRange lines) {
  const int64_t values = layout.values_bytes();
  const int64_t end =
      lines.bytes > 0 ? lines.first_byte + lines.bytes : layout.width_bytes();
  for (int64_t i = 0; i < lines.count; ++i) {
    // Of the line's first byte, which may lie before what is here.
    const int64_t start = first_position + i * pitch_bytes - lines.first_byte;
    for (int64_t at = std::max(values, lines.first_byte); at < end;) {
      const absl::Span<const char> bytes = positions.At(start + at, end - at);
      RETURN_IF_ERROR(
          CheckPart(name, layout, lines.first + i, at - values, bytes));
      at += std::ssize(bytes);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckMetadata(absl::string_view name,
                           const jit::MatrixLayout& layout,
                           const device::HostMatrix& from,
                           device::LineRange lines) {
  if (!layout.sparse) return absl::OkStatus();
  Positions positions(from.pieces);
  return Check(name, layout, positions, 0, from.pitch_bytes, lines);
}

absl::Status CheckMetadata(absl::string_view name,
                           const jit::MatrixLayout& layout,
                           const Input& input) {
  if (!layout.sparse || layout.empty() || input.tensor != nullptr) {
    return absl::OkStatus();
  }
  Positions positions(input.pieces);
  const int64_t lines = layout.matrix_lines();
  for (int64_t i = 0; i < layout.count; ++i) {
    RETURN_IF_ERROR(Check(name, layout, positions, i * input.matrix_bytes,
                          input.pitch_bytes, {i * lines, lines}));
  }
  return absl::OkStatus();
}

absl::Status CheckMetadata(const Product& product) {
  const jit::Problem& problem = product.problem;
  if (!problem.reads_ab()) return absl::OkStatus();
  switch (problem.sparse) {
    case jit::Sparse::kA:
      return CheckMetadata("a", problem.a(), product.a);
    case jit::Sparse::kB:
      return CheckMetadata("b", problem.b(), product.b);
    case jit::Sparse::kNone:
      break;
  }
  return absl::OkStatus();
}

}  // namespace gemmd::engine
