#include "jit/problem/metadata.h"

#include <cstring>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "jit/problem/instruction.h"

namespace gemmd::jit {
namespace {

// The lowest bit of every chunk.
constexpr uint64_t kLowest = 0x1111111111111111;

// For every chunk of `word` its lowest bit: whether it is legal.
template <bool kOfTwo>
uint64_t LegalChunks(uint64_t word) {
  const uint64_t first_low = word;
  const uint64_t first_high = word >> 1;
  const uint64_t second_low = word >> 2;
  const uint64_t second_high = word >> 3;
  const uint64_t high_same = ~(first_high ^ second_high);
  const uint64_t low_greater = second_low & ~first_low;
  // One of two elements is one of two pairs of four: 0x4 or 0xe.
  if constexpr (kOfTwo) return high_same & low_greater & kLowest;
  // The second place is greater than the first.
  const uint64_t high_greater = second_high & ~first_high;
  return (high_greater | (high_same & low_greater)) & kLowest;
}

template <bool kOfTwo>
int64_t FirstIllegal(absl::Span<const char> metadata) {
  const int64_t size = metadata.size();
  int64_t at = 0;
  // Many at a time, without a branch for each.
  constexpr int64_t kWords = 16;
  constexpr int64_t kBytes = kWords * sizeof(uint64_t);
  for (; at + kBytes <= size; at += kBytes) {
    uint64_t words[kWords];
    std::memcpy(words, metadata.data() + at, sizeof words);
    uint64_t legal = kLowest;
    for (const uint64_t word : words) legal &= LegalChunks<kOfTwo>(word);
    if (legal != kLowest) break;
  }
  for (; at < size; ++at) {
    const auto byte = static_cast<unsigned char>(metadata[at]);
    const uint64_t legal = LegalChunks<kOfTwo>(byte);
    if ((legal & 0x1) == 0) return 2 * at;
    if ((legal & 0x10) == 0) return 2 * at + 1;
  }
  return 2 * size;
}

}  // namespace

int64_t FirstIllegalChunk(DataType type, absl::Span<const char> metadata) {
  return type == DataType::kF32 ? FirstIllegal<true>(metadata)
                                : FirstIllegal<false>(metadata);
}

Places PlacesOf(DataType type, int metadata) {
  if (type == DataType::kF32) return {metadata >> 3, 0};
  return {metadata & 3, metadata >> 2 & 3};
}

absl::Status CheckSparseType(absl::string_view what, DataType type) {
  std::vector<absl::string_view> types;
  for (const Instruction& instruction : Instructions()) {
    const absl::string_view name = Name(instruction.x);
    if (instruction.sparse && !absl::c_linear_search(types, name)) {
      types.push_back(name);
    }
  }
  if (absl::c_linear_search(types, Name(type))) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what, " ", Name(type),
      "; allowed in a sparse matrix: ", absl::StrJoin(types, ", ")));
}

std::string LegalMetadata(DataType type) {
  return type == DataType::kF32
             ? "0x4 or 0xe, the place of one of two elements"
             : "0x4, 0x8, 0x9, 0xc, 0xd or 0xe, the places of two of four "
               "elements in ascending order";
}

}  // namespace gemmd::jit
