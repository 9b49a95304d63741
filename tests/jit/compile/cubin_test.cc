#include "jit/compile/cubin.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

TEST(CubinTest, ReadsWhatItSays) {
  const auto facts = ReadCubin(FakeCubin(168, 90));
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->architecture, 90);
  EXPECT_EQ(facts->registers, 168);
}

TEST(CubinTest, ReadsTheArchitectureAsOlderToolkitsWriteIt) {
  std::string cubin = FakeCubin();
  cubin[8] = 7;    // EI_ABIVERSION.
  cubin[48] = 90;  // e_flags, lowest byte.
  cubin[49] = 5;
  EXPECT_EQ(ReadCubin(cubin)->architecture, 90);
}

TEST(CubinTest, RefusesOneWithoutTheKernel) {
  EXPECT_TRUE(absl::IsDataLoss(ReadCubin(FakeCubin(42, 90, "other")).status()));
}

TEST(CubinTest, RefusesOneOfAnotherArchitecture) {
  CompiledKernel kernel = FakeKernel("source");
  EXPECT_TRUE(CheckCubin(kernel).ok());
  kernel.cubin = FakeCubin(42, 80);
  EXPECT_TRUE(absl::IsDataLoss(CheckCubin(kernel)));
}

TEST(CubinTest, SurvivesEveryTruncationAndGarbage) {
  const std::string cubin = FakeCubin();
  for (size_t length = 0; length < cubin.size(); ++length) {
    EXPECT_TRUE(absl::IsDataLoss(ReadCubin(cubin.substr(0, length)).status()));
  }
  std::mt19937 random(5);
  for (int round = 0; round < 50000; ++round) {
    std::string damaged = cubin;
    for (int flips = 0; flips < 3; ++flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    ReadCubin(damaged).status().IgnoreError();
  }
}

}  // namespace
}  // namespace gemmd::jit
