// What the benchmark does without a GPU: element arithmetic, its kernels run
// thread by thread on the host, how operands rotate, options and reports.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "jit/problem/arithmetic.h"
#include "tests/bench/operands.h"
#include "tests/bench/options.h"
#include "tests/bench/report.h"
#include "tests/bench/timer.h"

// Enough of CUDA C++ to compile the kernels as ordinary functions.
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
struct Index {
  unsigned x = 0;
};
static Index threadIdx, blockIdx, gridDim;
template <typename T>
static void atomicAdd(T* to, T value) {
  *to += value;
}
static void atomicMax(unsigned* to, unsigned value) {
  *to = std::max(*to, value);
}
#define gemmd_kernel FillKernel
#include "tests/bench/kernels/fill.cu"
#undef gemmd_kernel
#define gemmd_kernel CompareKernel
#include "tests/bench/kernels/compare.cu"
#undef gemmd_kernel
#define gemmd_kernel ForeignKernel
#include "tests/bench/kernels/foreign.cu"
#undef gemmd_kernel

namespace gemmd::bench {
namespace {

template <typename Kernel, typename Arguments>
void RunKernel(Kernel kernel, unsigned grid, const Arguments& arguments) {
  gridDim.x = grid;
  for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x) {
    for (threadIdx.x = 0; threadIdx.x < kThreads; ++threadIdx.x) {
      kernel(arguments);
    }
  }
}

float Rounded(Element element, float value) {
  return Decode(element, Encode(element, value));
}

TEST(ElementsTest, RoundToNearestEven) {
  EXPECT_EQ(Rounded(Element::kBf16, 1.0f), 1.0f);
  EXPECT_EQ(Rounded(Element::kBf16, 1.0f + 0x1p-8f), 1.0f);
  EXPECT_EQ(Rounded(Element::kBf16, 1.0f + 0x3p-8f), 1.0f + 0x2p-7f);
  EXPECT_EQ(Rounded(Element::kBf16, -0.3f), -0.30078125f);
  EXPECT_EQ(Rounded(Element::kF16, -1.0f), -1.0f);
  EXPECT_EQ(Rounded(Element::kF16, 0.5f + 0x1p-12f), 0.5f);
  EXPECT_EQ(Rounded(Element::kF16, 0.5f + 0x3p-12f), 0.5f + 0x2p-11f);
  EXPECT_EQ(Rounded(Element::kF16, 0x1p-14f), 0x1p-14f);
  EXPECT_EQ(Rounded(Element::kF16, 0x1p-15f), 0x1p-15f);  // Subnormal.
  EXPECT_EQ(Rounded(Element::kE4m3, 0.3f), 0.3125f);
  EXPECT_EQ(Rounded(Element::kE4m3, -0x3p-10f), -0x2p-9f);
  EXPECT_EQ(Rounded(Element::kE5m2, 0.3f), 0.3125f);
  EXPECT_EQ(Rounded(Element::kF32, 0.1f), 0.1f);
}

TEST(ElementsTest, DecodeAllOfF16) {
  EXPECT_EQ(Decode(Element::kF16, 0x0001), 0x1p-24f);
  EXPECT_EQ(Decode(Element::kF16, 0x83ff), -0x3ffp-24f);
  EXPECT_EQ(Decode(Element::kF16, 0x7bff), 65504.0f);
  EXPECT_EQ(Decode(Element::kF16, 0xfc00), -INFINITY);
  EXPECT_TRUE(std::isnan(Decode(Element::kF16, 0xffff)));
  EXPECT_TRUE(std::isnan(Decode(Element::kBf16, 0xffff)));
}

TEST(ElementsTest, RandomValuesAreSpreadAndSigned) {
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double value = RandomValue(3, static_cast<uint64_t>(i));
    ASSERT_LT(std::fabs(value), 1.0);
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 0.01);
  EXPECT_NE(RandomValue(1, 5), RandomValue(2, 5));
}

TEST(KernelsTest, FillIsTheSameWithAndWithoutPadding) {
  constexpr int kWidth = 301, kLines = 5, kPitch = 640;
  std::vector<char> padded(kLines * kPitch, '\x7f');
  std::vector<char> plain(kLines * kWidth * 2, '\x7f');
  const auto fill = [](std::vector<char>& to, int64_t pitch) {
    RunKernel(FillKernel, 2,
              FillArguments{to.data(), pitch, kWidth, kLines, kSeedA,
                            Element::kBf16});
  };
  fill(padded, kPitch);
  fill(plain, kWidth * 2);
  for (int line = 0; line < kLines; ++line) {
    EXPECT_EQ(std::string(&padded[line * kPitch], kWidth * 2),
              std::string(&plain[line * kWidth * 2], kWidth * 2));
    EXPECT_EQ(padded[line * kPitch + kWidth * 2], '\x7f');
  }
  const unsigned expected =
      Encode(Element::kBf16, RandomValue(kSeedA, 4 * kWidth + 300));
  uint16_t last;
  std::memcpy(&last, &plain[plain.size() - 2], 2);
  EXPECT_EQ(last, expected);
}

class CompareTest : public testing::Test {
 protected:
  void Compare() {
    mismatches_ = 0;
    largest_ = 0;
    RunKernel(CompareKernel, 3,
              CompareArguments{x_.data(), y_.data(), 4 * kWidth, 4 * kWidth,
                               kWidth, kLines, Element::kF32, 0.5f, 0.25f,
                               &mismatches_, &largest_});
  }
  float largest() const { return Decode(Element::kF32, largest_); }

  static constexpr int kWidth = 300, kLines = 4;
  std::vector<float> x_ = std::vector<float>(kWidth * kLines, 8.0f);
  std::vector<float> y_ = x_;
  unsigned long long mismatches_ = 0;
  unsigned largest_ = 0;
};

TEST_F(CompareTest, EqualMatricesAgree) {
  Compare();
  EXPECT_EQ(mismatches_, 0u);
  EXPECT_EQ(largest(), 0.0f);
}

TEST_F(CompareTest, CountsWhatIsOutOfTolerance) {
  x_[0] = 10.5f;                    // 2.5 apart; 0.5 + 10.5 / 4 allowed.
  y_[kWidth * kLines - 1] = -8.0f;  // 16 apart.
  y_[299] = 4.0f;                   // 4 apart; 2.5 allowed.
  Compare();
  EXPECT_EQ(mismatches_, 2u);
  EXPECT_EQ(largest(), 16.0f);
}

TEST_F(CompareTest, NanOnEitherSideIsAMismatch) {
  x_[1] = NAN;
  y_[700] = NAN;
  Compare();
  EXPECT_EQ(mismatches_, 2u);
  EXPECT_EQ(largest(), INFINITY);
}

TEST(KernelsTest, ForeignBytesAreThoseBeyondTheWidth) {
  std::string bytes(3 * 600, '\xff');
  bytes[5] = 1;          // Within the first line.
  bytes[10] = 1;         // Just behind it.
  bytes[600 + 599] = 1;  // Last byte of the second line's padding.
  unsigned long long count = 0;
  RunKernel(
      ForeignKernel, 2,
      ForeignArguments{reinterpret_cast<const unsigned char*>(bytes.data()),
                       600, 10, 3, 0xff, &count});
  EXPECT_EQ(count, 2u);
}

TEST(OperandsTest, CopiesPassTwiceTheL2CacheBetweenTwoUses) {
  jit::Problem problem;
  problem.m = problem.n = problem.k = 1024;  // Inputs of 4 MiB.
  const Operands::Limits limits = {.l2_bytes = int64_t{50} << 20};
  const int copies = Operands::CopyCount(problem, limits);
  EXPECT_EQ(copies, 26);
  EXPECT_EQ(Operands::CopyCount(problem, {.l2_bytes = limits.l2_bytes,
                                          .memory_bytes = 13 << 20}),
            2);
  problem.m = problem.n = problem.k = 65536;
  EXPECT_EQ(Operands::CopyCount(problem, limits), 1);
}

TEST(TimerTest, Median) {
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
}

TEST(OptionsTest, ReadsFlagsInBothForms) {
  const auto options =
      ParseOptions({"--problem", "bf16 TN 64 32 16", "--candidates=3",
                    "--check", "--mode", "both", "--segment", "2000"});
  ASSERT_TRUE(options.ok()) << options.status();
  ASSERT_EQ(options->problems.size(), 1u);
  EXPECT_EQ(options->problems[0].k, 16);
  EXPECT_EQ(options->candidates, 3);
  EXPECT_TRUE(options->check);
  EXPECT_TRUE(options->burst);
  EXPECT_TRUE(options->sustained);
  EXPECT_EQ(options->segment_ms, 2000);
}

TEST(OptionsTest, AProfilerWantsNoBursts) {
  const auto options =
      ParseOptions({"--problem", "bf16 TN 64 32 16", "--mode", "profile"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(options->profile);
  EXPECT_FALSE(options->burst);
  EXPECT_FALSE(options->sustained);
}

TEST(OptionsTest, RefusesWhatItDoesNotKnow) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"--problem", "bf16 TN 64 32"},
      {"--problem", "bf16 TN 0 32 16"},
      {"--problem", "bf16 TN 64 32 16", "--mode", "fast"},
      {"--problem", "bf16 TN 64 32 16", "--candidates", "0"},
      {"--problem", "bf16 TN 64 32 16", "--json"},
      {"--problem", "bf16 TN 64 32 16", "--frobnicate", "1"},
      {"--shapes", "/no/such/file"},
  };
  for (const auto& arguments : wrong) {
    EXPECT_EQ(ParseOptions(arguments).status().code(),
              absl::StatusCode::kInvalidArgument)
        << (arguments.empty() ? "" : arguments.back());
  }
}

TEST(OptionsTest, TheCoreSetIsValid) {
  const auto options =
      ParseOptions({"--shapes", GEMMD_BENCH_SHAPES "/core.txt"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->problems.size(), 40u);
}

TEST(OptionsTest, TheFormsAreAllThatIsServed) {
  const auto options =
      ParseOptions({"--shapes", GEMMD_BENCH_SHAPES "/forms.txt"});
  ASSERT_TRUE(options.ok()) << options.status();
  std::multiset<std::string> listed, served;
  for (const jit::Problem& problem : options->problems) {
    listed.insert(Name(problem.arithmetic()));
  }
  for (const jit::Arithmetic& each : jit::Arithmetics()) {
    served.insert(Name(each));
  }
  EXPECT_EQ(listed, served);
}

RaceResult OddResult() {
  RaceResult result;
  result.problem =
      *[] {
        return ParseOptions({"--problem", "bf16 TN 1000 999 1001"});
      }()
           ->problems.begin();
  result.odd = true;
  OurResult ours;
  ours.kernel = "gemm_\"x\"";
  ours.resident.burst_us = 10;
  ours.packed.burst_us = 20;
  ours.packed.sustained_joules = 0.25;
  ours.check.emplace();
  result.ours = {ours};
  result.library =
      LibraryResult{.heuristics = 8,
                    .best = 1,
                    .best_times = {.burst_us = 40, .sustained_joules = 1},
                    .first_times = {.burst_us = 80}};
  return result;
}

TEST(ReportTest, OddSizesCountThePacking) {
  Environment environment;
  environment.ceiling_tflops["bf16"] = 1000;
  const std::string json = Json({OddResult()}, {}, environment);
  for (const char* part : {
           "\"bf16 TN 1000x999x1001\": {",
           "\"ours_tflops\": 99.9999",
           "\"cublaslt_tflops\": 49.9999",
           "\"ratio\": 2,",
           "\"first_ratio\": 4,",
           "\"ceiling_fraction\": 0.0999999",
           "\"pack_ratio\": 2,",
           "\"resident_ratio\": 4,",
           "\"joules\": 0.25,",
           "\"cublaslt_joules\": 1,",
           "\"joules_ratio\": 4,",
           "\"kernel\": \"gemm_\\\"x\\\"\"",
           "\"largest_error\": 0,",
       }) {
    EXPECT_NE(json.find(part), std::string::npos) << part << "\n" << json;
  }
  EXPECT_NE(Summary({OddResult()}).find("2.000 (1 shapes)"), std::string::npos);
}

TEST(ReportTest, WithoutTheLibraryRatiosAreNull) {
  RaceResult result = OddResult();
  result.library.reset();
  const std::string json = Json({result}, {{"x", "went \"wrong\""}}, {});
  EXPECT_NE(json.find("\"ratio\": null"), std::string::npos) << json;
  EXPECT_NE(json.find("\"failures\": {\"x\": \"went \\\"wrong\\\"\"}"),
            std::string::npos)
      << json;
  EXPECT_NE(TableRows(result, {}).find("-"), std::string::npos);
}

}  // namespace
}  // namespace gemmd::bench
