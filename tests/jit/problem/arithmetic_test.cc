#include "jit/problem/arithmetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace gemmd::jit {
namespace {

TEST(ArithmeticTest, NamesAreUnique) {
  std::set<std::string> names;
  for (const Arithmetic& arithmetic : Arithmetics()) {
    names.insert(Name(arithmetic));
  }
  EXPECT_EQ(names.size(), Arithmetics().size());
  for (const char* name : {"bf16",
                           "f16",
                           "f16-f16",
                           "f32",
                           "tf32",
                           "tf32-fast",
                           "e4m3",
                           "e4m3-fast",
                           "e5m2-e4m3",
                           "e5m2-e4m3-fast",
                           "e4m3-f16",
                           "s8",
                           "u8-s8",
                           "s8-clamp",
                           "b1",
                           "b1-xor",
                           "sparse-bf16",
                           "bf16-sparse",
                           "sparse-tf32-fast",
                           "tf32-sparse",
                           "sparse-e4m3-e5m2-f16",
                           "e4m3-sparse-e5m2-fast",
                           "u8-sparse-clamp",
                           "bf16-s4",
                           "u4-f16",
                           "s8-bf16",
                           "f16-e4m3",
                           "e4m3-f16-f32"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(ArithmeticTest, EveryInstructionIsOneRequestAway) {
  for (const Instruction& instruction : Instructions()) {
    EXPECT_TRUE(std::any_of(Arithmetics().begin(), Arithmetics().end(),
                            [&](const Arithmetic& arithmetic) {
                              return InstructionOf(arithmetic) == instruction;
                            }))
        << Name(instruction);
  }
}

// Every dense one but "f32", those of bits and those of weights.
TEST(ArithmeticTest, AOrBMayBeSparseWhereverThereIsAnInstruction) {
  for (Arithmetic arithmetic : Arithmetics()) {
    if (arithmetic.sparse != Sparse::kNone) continue;
    const bool both = Name(arithmetic) != "f32" &&
                      arithmetic.a != DataType::kB1 &&
                      !IsMixed(arithmetic.a, arithmetic.b);
    for (const Sparse sparse : {Sparse::kA, Sparse::kB}) {
      arithmetic.sparse = sparse;
      EXPECT_EQ(
          std::count(Arithmetics().begin(), Arithmetics().end(), arithmetic),
          both ? 1 : 0)
          << Name(arithmetic);
    }
  }
}

TEST(ArithmeticTest, TheSparseOperandIsX) {
  Arithmetic arithmetic = {
      .a = DataType::kE4m3, .b = DataType::kE5m2, .sparse = Sparse::kA};
  EXPECT_EQ(Name(InstructionOf(arithmetic)), "sparse-e4m3-e5m2");
  arithmetic.sparse = Sparse::kB;
  EXPECT_EQ(Name(arithmetic), "e4m3-sparse-e5m2");
  EXPECT_EQ(Name(InstructionOf(arithmetic)), "sparse-e5m2-e4m3");
}

TEST(ArithmeticTest, AccurateF32RunsAsProductsOfBf16) {
  const Arithmetic f32 = {.a = DataType::kF32, .b = DataType::kF32};
  EXPECT_EQ(Name(f32), "f32");
  EXPECT_EQ(Name(InstructionOf(f32)), "bf16");
}

TEST(ArithmeticTest, WeightsRunAsElementsOfTheOtherOperandsType) {
  for (const DataType weights :
       {DataType::kS4, DataType::kU4, DataType::kS8, DataType::kE4m3}) {
    for (const DataType other : {DataType::kBf16, DataType::kF16}) {
      EXPECT_TRUE(IsMixed(weights, other));
      EXPECT_TRUE(IsMixed(other, weights));
      EXPECT_TRUE(WeightsAreB(other, weights));
      EXPECT_FALSE(WeightsAreB(weights, other));
      for (const Arithmetic& arithmetic :
           {Arithmetic{.a = weights, .b = other},
            Arithmetic{.a = other, .b = weights}}) {
        EXPECT_EQ(
            std::count(Arithmetics().begin(), Arithmetics().end(), arithmetic),
            1);
        EXPECT_EQ(Name(InstructionOf(arithmetic)), Name(other));
        EXPECT_EQ(DefaultOutput(arithmetic.a, arithmetic.b), other);
        EXPECT_EQ(DefaultAccumulator(arithmetic.a, arithmetic.b),
                  DataType::kF32);
      }
    }
  }
  EXPECT_FALSE(IsMixed(DataType::kE4m3, DataType::kE5m2));
  EXPECT_FALSE(IsMixed(DataType::kS8, DataType::kF32));
  EXPECT_FALSE(IsMixed(DataType::kBf16, DataType::kF16));
}

TEST(ArithmeticTest, IntegersGiveS32UnlessAsked) {
  EXPECT_EQ(DefaultOutput(DataType::kU8, DataType::kU8), DataType::kS32);
  EXPECT_EQ(DefaultOutput(DataType::kB1, DataType::kB1), DataType::kS32);
  EXPECT_EQ(DefaultOutput(DataType::kE4m3, DataType::kE5m2), DataType::kE4m3);
}

}  // namespace
}  // namespace gemmd::jit
