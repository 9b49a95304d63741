// One form of wgmma.mma_async with its number of columns: what the generated
// text of an instance says of its instruction. Plain data, no other header of
// the project: every instance includes it.
#ifndef GEMMD_TESTS_EMULATOR_MACHINE_INSTRUCTION_H_
#define GEMMD_TESTS_EMULATOR_MACHINE_INSTRUCTION_H_

#include <cstdint>

namespace gemmd::emulator {

enum class Number : uint8_t {
  kF16,
  kBf16,
  kTf32,
  kE4m3,
  kE5m2,
  kS8,
  kU8,
  kB1,
  kF32,
  kS32,
};

constexpr int BitsOf(Number number) {
  switch (number) {
    case Number::kF16:
    case Number::kBf16:
      return 16;
    case Number::kTf32:
    case Number::kF32:
    case Number::kS32:
      return 32;
    case Number::kB1:
      return 1;
    default:
      return 8;
  }
}

struct Wgmma {
  Number x;
  Number y;
  Number sum;  // kF16, kF32 or kS32.
  bool clamps;
  int columns;
  // Operands whose lines, not k, are contiguous.
  bool x_mn_major;
  bool y_mn_major;
  bool sparse;  // X holds half of its elements.
  bool x_in_registers;

  // Elements of k: 32 bytes of X.
  constexpr int depth() const { return 256 / BitsOf(x) * (sparse ? 2 : 1); }
  // Registers of 32 bits per thread.
  constexpr int registers() const {
    return sum == Number::kF16 ? columns / 4 : columns / 2;
  }
};

inline constexpr int kWgmmaRows = 64;

// What a thread gives to an instruction in its own registers: metadata of a
// sparse X, or its part of X.
struct Given {
  uint32_t words[4];
  int selector;
};

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MACHINE_INSTRUCTION_H_
