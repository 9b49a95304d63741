// The arithmetic of the tensor core, to the last bit. One instruction adds its
// exact products and the old sum at once: all aligned to the greatest exponent,
// each truncated toward zero to a number of fraction bits, added exactly, the
// result brought to the type of the sum. What of this is confirmed on an H200,
// service/host/hopper/adder.h says, which this does not use. Pure functions.
#ifndef GEMMD_TESTS_EMULATOR_MACHINE_TENSOR_CORE_H_
#define GEMMD_TESTS_EMULATOR_MACHINE_TENSOR_CORE_H_

#include <cstdint>
#include <vector>

#include "tests/emulator/machine/instruction.h"

namespace gemmd::emulator {

// A number taken apart: significand * 2^(exponent - fraction bits of its type).
struct Parts {
  enum class Kind : uint8_t { kFinite, kInfinite, kNan };
  int32_t significand = 0;  // With sign.
  int16_t exponent = 0;     // Not normalised below the least of the type.
  Kind kind = Kind::kFinite;
};

// The element of that type whose bits are the low ones of `bits`.
Parts PartsOf(Number number, uint32_t bits);

// The bits of the sum of `depth` products and the old sum, whose bits are
// `sum`. For floating forms.
uint32_t AddProducts(const Wgmma& wgmma, const Parts* x, const Parts* y,
                     uint32_t sum);

// For integers and bits: operands are 32 bytes, 64 of a sparse form.
uint32_t AddIntegerProducts(const Wgmma& wgmma, const unsigned char* x,
                            const unsigned char* y, uint32_t sum);

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MACHINE_TENSOR_CORE_H_
