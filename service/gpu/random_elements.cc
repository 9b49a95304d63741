#include "service/gpu/random_elements.h"

#include <cstdint>
#include <cstring>
#include <random>

#include "jit/base/status.h"

namespace gemmd::gpu {
namespace {

// Bits of eight bytes that are random, and those that are set.
struct Pattern {
  uint64_t random;
  uint64_t set;
};

// Of floating types sign and mantissa are random and two bits of the exponent,
// so that magnitudes are from an eighth, or a 16th, to 1 or 2.
Pattern PatternOf(jit::DataType type) {
  switch (type) {
    case jit::DataType::kF32:
      return {0x81ff'ffff'81ff'ffff, 0x3e00'0000'3e00'0000};
    case jit::DataType::kF16:
      return {0x8fff'8fff'8fff'8fff, 0x3000'3000'3000'3000};
    case jit::DataType::kBf16:
      return {0x81ff'81ff'81ff'81ff, 0x3e00'3e00'3e00'3e00};
    case jit::DataType::kE4m3:
      return {0x9f9f'9f9f'9f9f'9f9f, 0x2020'2020'2020'2020};
    case jit::DataType::kE5m2:
      return {0x8f8f'8f8f'8f8f'8f8f, 0x3030'3030'3030'3030};
    case jit::DataType::kS8:
    case jit::DataType::kU8:
    case jit::DataType::kS4:
    case jit::DataType::kU4:
    case jit::DataType::kB1:
    case jit::DataType::kS32:
      break;
  }
  return {~uint64_t{0}, 0};
}

}  // namespace

void FillRandomly(jit::DataType type, absl::Span<char> bytes) {
  CHECK(bytes.size() % sizeof(uint64_t) == 0);
  const Pattern pattern = PatternOf(type);
  std::mt19937_64 random;
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    const uint64_t word = (random() & pattern.random) | pattern.set;
    std::memcpy(bytes.data() + at, &word, sizeof(word));
  }
}

}  // namespace gemmd::gpu
