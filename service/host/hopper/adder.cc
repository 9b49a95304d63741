#include "service/host/hopper/adder.h"

#include <algorithm>

#include "jit/base/status.h"
#include "jit/problem/arithmetic.h"

namespace gemmd::host {

using jit::DataType;

std::optional<Adder> AdderOf(const jit::Instruction& instruction) {
  const int products = jit::KOf(instruction);
  const bool f16_sums = instruction.accumulator == DataType::kF16;
  if (instruction.accumulator == DataType::kS32) return std::nullopt;
  const int kept_bits = jit::IsFp8(instruction.x) ? 13 : 25;
  if (f16_sums) return Adder{products, kept_bits, Adder::Sum::kF16, 10};
  return Adder{products, kept_bits, Adder::Sum::kF32, std::min(kept_bits, 23)};
}

int LeastExponent(DataType type) {
  switch (type) {
    case DataType::kBf16:
    case DataType::kF32:
      return kLeastF32;
    case DataType::kF16:
    case DataType::kE5m2:
      return -14;
    case DataType::kE4m3:
      return -6;
    default:
      CHECK(false);
  }
}

}  // namespace gemmd::host
