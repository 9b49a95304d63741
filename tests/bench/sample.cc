#include "tests/bench/sample.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <set>
#include <tuple>

namespace gemmd::bench {
namespace {

constexpr int64_t kGrid[] = {16,   32,   64,   128,  256,   512,
                             1024, 2048, 4096, 8192, 12288, 16384};
// So that one product takes a few milliseconds at most.
constexpr double kMostMacs = 2.2e12;
constexpr double kSmallMacs = double{1 << 28};

// Distributions of the standard library differ between implementations.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  // Each of [first, last] alike, but for a bias below 2^-40.
  int64_t Roll(int64_t first, int64_t last) {
    return first + static_cast<int64_t>(
                       engine_() % static_cast<uint64_t>(last - first + 1));
  }

 private:
  std::mt19937_64 engine_;
};

// A dimension of the grid between `least` and `most`; every second time a
// multiple of 8 between it and the next smaller one instead.
int64_t Even(Dice& dice, int64_t least = 16, int64_t most = 16384) {
  const auto first = std::ranges::lower_bound(kGrid, least);
  const auto last = std::ranges::upper_bound(kGrid, most) - 1;
  const int64_t at = dice.Roll(first - kGrid, last - kGrid);
  if (at == 0 || kGrid[at] == least || dice.Roll(0, 1) == 0) return kGrid[at];
  return 8 * dice.Roll(kGrid[at - 1] / 8 + 1, kGrid[at] / 8 - 1);
}

// Any dimension of a size that the grid has.
int64_t Odd(Dice& dice) {
  const int64_t even = Even(dice, 64, 8192);
  return even - dice.Roll(0, 7);
}

struct Shape {
  int64_t m, n, k;
};

Shape WithSmallSide(Dice& dice, int64_t side, Shape shape) {
  (dice.Roll(0, 1) == 0 ? shape.m : shape.n) = side;
  return shape;
}

// One in twelve products is a vector's, and so on.
Shape RollShape(Dice& dice) {
  const int64_t slice = dice.Roll(1, 12);
  const Shape even = {Even(dice), Even(dice), Even(dice)};
  if (slice == 1) {
    return WithSmallSide(dice, 1, {Even(dice, 64), Even(dice, 64), even.k});
  }
  if (slice <= 3) return WithSmallSide(dice, dice.Roll(2, 32), even);
  if (slice == 4) return {even.m, even.n, dice.Roll(1, 16)};
  if (slice == 5) {
    return {Even(dice, 16, 512), Even(dice, 16, 512),
            8 * dice.Roll(1024, 8192)};
  }
  if (slice == 6) return {Odd(dice), Odd(dice), Odd(dice)};
  return even;
}

// What vectors and the copy engine want of each line.
constexpr int kVectorBytes = 16;

bool IsEven(const jit::MatrixLayout& layout) {
  return layout.width_bytes() % kVectorBytes == 0;
}

}  // namespace

absl::string_view Name(Stratum stratum) {
  switch (stratum) {
    case Stratum::kVector:
      return "vector";
    case Stratum::kOuter:
      return "outer";
    case Stratum::kOdd:
      return "odd";
    case Stratum::kSkinny:
      return "skinny";
    case Stratum::kLongK:
      return "long k";
    case Stratum::kSmall:
      return "small";
    case Stratum::kRegular:
      return "regular";
  }
  return "";
}

Stratum StratumOf(const jit::Problem& problem) {
  const auto [least, most] = std::minmax(problem.m, problem.n);
  const double macs = double{1} * problem.m * problem.n * problem.k;
  if (least == 1) return Stratum::kVector;
  if (problem.k <= 16) return Stratum::kOuter;
  if (!IsEven(problem.a()) || !IsEven(problem.b()) || !IsEven(problem.d())) {
    return Stratum::kOdd;
  }
  if (least <= 32) return Stratum::kSkinny;
  if (most <= 512 && problem.k >= 8192) return Stratum::kLongK;
  return macs <= kSmallMacs ? Stratum::kSmall : Stratum::kRegular;
}

std::vector<jit::Problem> SampleProblems(int count, uint64_t seed,
                                         const jit::Problem& like) {
  Dice dice(seed);
  std::vector<jit::Problem> problems;
  std::set<std::tuple<int64_t, int64_t, int64_t, int64_t>> seen;
  while (static_cast<int>(problems.size()) < count) {
    const Shape shape = RollShape(dice);
    const int64_t layout = dice.Roll(0, 3);
    if (double{1} * shape.m * shape.n * shape.k > kMostMacs) continue;
    if (!seen.insert({shape.m, shape.n, shape.k, layout}).second) continue;
    jit::Problem problem = like;
    problem.m = shape.m;
    problem.n = shape.n;
    problem.k = shape.k;
    problem.a_order =
        layout / 2 == 0 ? jit::Order::kRowMajor : jit::Order::kColumnMajor;
    problem.b_order =
        layout % 2 == 0 ? jit::Order::kRowMajor : jit::Order::kColumnMajor;
    // Lines of sparse operands and of weights run along k alone.
    if (Validate(problem).ok()) problems.push_back(problem);
  }
  return problems;
}

}  // namespace gemmd::bench
