// Which sparse lines (layout.h) there are, and which metadata of theirs are
// legal: others would make a tensor core multiply what nobody asked for. Pure
// functions.
#ifndef GEMMD_JIT_PROBLEM_METADATA_H_
#define GEMMD_JIT_PROBLEM_METADATA_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "jit/problem/data_type.h"

namespace gemmd::jit {

// INVALID_ARGUMENT unless operands of such elements have a sparse form. `what`
// begins the text: "dtype is".
absl::Status CheckSparseType(absl::string_view what, DataType type);

// Two chunks whose first elements are the values: legal for every type.
inline constexpr char kFirstPlaces = 0x44;

// Which chunk of `metadata`, two to a byte, is the first that is not legal;
// 2 * size where all are. Some GB/s.
int64_t FirstIllegalChunk(DataType type, absl::Span<const char> metadata);

// The four bits of a chunk.
inline int MetadataOf(const char* metadata, int64_t chunk) {
  return metadata[chunk / 2] >> chunk % 2 * 4 & 0xf;
}

// Where in its chunk the values of legal metadata stand.
struct Places {
  int first = 0;
  int second = 0;  // Not of f32, which has one value.
};
Places PlacesOf(DataType type, int metadata);

// What is legal and why, for error texts.
std::string LegalMetadata(DataType type);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PROBLEM_METADATA_H_
