#include "service/host/hopper/adder.h"

#include "jit/base/status.h"
#include "jit/problem/arithmetic.h"

namespace gemmd::host {

using jit::DataType;

std::optional<Adder> AdderOf(const jit::Instruction& instruction) {
  const int products = jit::KOf(instruction);
  const bool f16_sums = instruction.accumulator == DataType::kF16;
  if (instruction.accumulator == DataType::kS32) return std::nullopt;
  if (jit::IsFp8(instruction.x)) {
    if (f16_sums) return std::nullopt;
    return Adder{products, 13, Adder::Sum::kF32, 13};
  }
  return Adder{products, 25, f16_sums ? Adder::Sum::kF16 : Adder::Sum::kF32,
               f16_sums ? 10 : 23};
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
