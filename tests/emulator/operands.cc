#include "tests/emulator/operands.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "jit/problem/arithmetic.h"
#include "service/host/elements.h"
#include "service/host/hopper/hopper_sums.h"

namespace gemmd::emulator {
namespace {

using jit::DataType;
using jit::MatrixLayout;

// Magnitudes such that sums of a few hundred products are exact in the sum of
// every arithmetic, and that f32 operands fill more than one part of a split.
int LimitOf(DataType type, bool first) {
  switch (type) {
    case DataType::kF32:
      return first ? 1023 : 3;
    case DataType::kE4m3:
    case DataType::kE5m2:
      return 2;
    case DataType::kS8:
    case DataType::kU8:
      return 100;
    default:
      return 3;
  }
}

void PutElement(DataType type, int value, char* line, int64_t i) {
  if (type == DataType::kB1) {
    const char bit = static_cast<char>(1 << i % 8);
    line[i / 8] = value & 1 ? line[i / 8] | bit : line[i / 8] & ~bit;
  } else if (jit::BitsOf(type) == 4) {
    const int shift = static_cast<int>(i % 2 * 4);
    line[i / 2] = static_cast<char>((line[i / 2] & ~(0xf << shift)) |
                                    (value & 0xf) << shift);
  } else if (type == DataType::kS32) {
    std::memcpy(line + 4 * i, &value, sizeof value);
  } else {
    const auto number = static_cast<float>(value);
    host::Store(type, &number, 1, line, i);
  }
}

// Elements that a line stores.
int64_t Stored(const MatrixLayout& layout) {
  return layout.sparse ? layout.width() / 2 : layout.width();
}

// Any legal metadata. What is slack behind the last chunk has any bits.
void FillMetadata(const MatrixLayout& layout, uint64_t seed,
                  GlobalBlock& block) {
  constexpr int kTwoOfFour[] = {0x4, 0x8, 0x9, 0xc, 0xd, 0xe};
  constexpr int kOneOfTwo[] = {0x4, 0xe};
  const int64_t chunks = layout.width() / jit::ChunkOf(layout.type);
  std::minstd_rand random(seed);
  const auto pattern = [&]() -> int {
    const auto choice = random() >> 8;
    return layout.type == DataType::kF32 ? kOneOfTwo[choice % 2]
                                         : kTwoOfFour[choice % 6];
  };
  for (int64_t line = 0; line < layout.lines(); ++line) {
    char* const to = block.data() + line * layout.pitch_bytes() +
                     layout.values_bytes();
    for (int64_t i = 0; i < layout.metadata_bytes(); ++i) {
      const int upper = 2 * i + 1 < chunks ? pattern() : 0xf;
      to[i] = static_cast<char>(pattern() | upper << 4);
    }
  }
}

// Powers of two as scales, which keep integers exact, and small zero points.
void FillGroups(const MatrixLayout& layout, uint64_t seed, GlobalBlock& block) {
  std::minstd_rand random(seed);
  for (int64_t line = 0; line < layout.lines(); ++line) {
    char* const to = block.data() + line * layout.pitch_bytes();
    for (int64_t i = 0; i < layout.groups(); ++i) {
      const float scale = std::ldexp(1.0f, static_cast<int>(random() % 3) - 1);
      std::memcpy(to + layout.values_bytes() + 4 * i, &scale, sizeof scale);
      if (!layout.quantization.zero_points) continue;
      to[layout.zero_points_at() + i] = static_cast<char>(random() % 7 - 3);
    }
  }
}

// Padding, and what is never written, holds ones; not the bits behind the last
// one of a line, which the lane clears.
void Fill(const MatrixLayout& layout, int limit, uint64_t seed,
          GlobalBlock& block) {
  std::minstd_rand random(seed);
  std::memset(block.data(), 0xff, block.size());
  const bool positive =
      layout.type == DataType::kU8 || layout.type == DataType::kU4;
  const int least = positive ? 0 : -limit;
  for (int64_t line = 0; line < layout.lines(); ++line) {
    for (int64_t i = 0; i < Stored(layout); ++i) {
      const auto span = static_cast<uint64_t>(limit - least + 1);
      PutElement(layout.type, least + static_cast<int>(random() % span),
                 block.data() + line * layout.pitch_bytes(), i);
    }
    const int64_t per_byte = std::max(1, 8 / jit::BitsOf(layout.type));
    for (int64_t i = layout.width(); i % per_byte != 0; ++i) {
      PutElement(layout.type, 0, block.data() + line * layout.pitch_bytes(), i);
    }
  }
  if (layout.sparse) FillMetadata(layout, seed, block);
  if (layout.quantization.group != 0) FillGroups(layout, seed, block);
}

// Numbers of many sizes, and zeros; of integers nothing changes.
void FillNumbers(const MatrixLayout& layout, uint64_t seed,
                 GlobalBlock& block) {
  if (jit::DefaultAccumulator(layout.type, layout.type) != DataType::kF32)
    return;
  std::minstd_rand random(seed);
  for (int64_t line = 0; line < layout.lines(); ++line) {
    for (int64_t i = 0; i < Stored(layout); ++i) {
      const uint32_t bits = static_cast<uint32_t>(random());
      const float fraction = static_cast<float>(bits % 65536) / 65536;
      const int exponent = static_cast<int>(bits >> 16 & 7) - 6;
      float number = std::ldexp(1 + fraction, exponent);
      if (bits >> 24 & 1) number = -number;
      if ((bits >> 25 & 15) == 0) number = 0;
      host::Store(layout.type, &number, 1,
                  block.data() + line * layout.pitch_bytes(), i);
    }
  }
}

// Powers of two, which keep integers exact.
void FillScales(const MatrixLayout& layout, uint64_t seed, GlobalBlock& block) {
  std::minstd_rand random(seed);
  std::memset(block.data(), 0xff, block.size());
  for (int64_t line = 0; line < layout.lines(); ++line) {
    for (int64_t i = 0; i < layout.width(); ++i) {
      const float scale = std::ldexp(1.0f, static_cast<int>(random() % 3) - 1);
      std::memcpy(block.data() + line * layout.pitch_bytes() + 4 * i, &scale,
                  sizeof scale);
    }
  }
}

size_t SizeOf(const MatrixLayout& layout) {
  return static_cast<size_t>(layout.device_bytes());
}

double ElementAt(DataType type, const char* line, int64_t i) {
  double value = 0;
  host::Load(type, host::Reading::kExact, line, i, 1, &value);
  return value;
}

}  // namespace

Operands::Operands(const jit::Problem& problem, const jit::Plan& plan,
                   uint64_t seed)
    : a(SizeOf(problem.a())),
      b(SizeOf(problem.b())),
      c(problem.reads_c() ? SizeOf(problem.c()) : 0),
      d(SizeOf(problem.d())),
      bias(SizeOf(problem.bias())),
      a_scale(SizeOf(problem.a_scale())),
      b_scale(SizeOf(problem.b_scale())),
      d_scale(SizeOf(problem.d_scale())),
      auxiliary(problem.epilogue.writes_auxiliary ? SizeOf(problem.d()) : 0),
      amax(SizeOf(problem.amax())),
      plan_(plan),
      numbers_(seed % 2 == 1 && plan.splits != 0 &&
               host::HopperSums::Knows(plan)) {
  Fill(problem.a(), LimitOf(problem.a_type, true), 3 * seed + 1, a);
  Fill(problem.b(), LimitOf(problem.b_type, false), 3 * seed + 2, b);
  if (problem.reads_c()) Fill(problem.c(), 5, 3 * seed + 3, c);
  if (numbers_) {
    FillNumbers(problem.a(), 3 * seed + 1, a);
    FillNumbers(problem.b(), 3 * seed + 2, b);
    if (problem.reads_c()) FillNumbers(problem.c(), 3 * seed + 3, c);
  }
  Fill(problem.bias(), 5, 3 * seed + 4, bias);
  FillScales(problem.a_scale(), 3 * seed + 5, a_scale);
  FillScales(problem.b_scale(), 3 * seed + 6, b_scale);
  FillScales(problem.d_scale(), 3 * seed + 7, d_scale);
  std::memset(d.data(), kUnwritten, d.size());
  std::memset(auxiliary.data(), kUnwritten, auxiliary.size());
  std::memset(amax.data(), 0, amax.size());
}

std::vector<GlobalBlock*> Operands::blocks() {
  return {&a,       &b,       &c,       &d,         &bias,
          &a_scale, &b_scale, &d_scale, &auxiliary, &amax};
}

Operands::Results Operands::Expected(const jit::Problem& problem) const {
  return Compute(problem, a.data(), c.data());
}

Operands::Results Operands::ExpectedWithout(
    const jit::Problem& problem,
    const std::function<bool(int64_t k)>& left_out) const {
  // What is not stored cannot be left out by writing zeros.
  const jit::MatrixLayout layout = problem.a();
  if (layout.sparse) return Expected(problem);
  std::string left(a.data(), a.size());
  const bool by_rows = layout.order == jit::Order::kRowMajor;
  for (int64_t line = 0; line < layout.lines(); ++line) {
    for (int64_t i = 0; i < layout.width(); ++i) {
      if (!left_out(by_rows ? i : line % layout.matrix_lines())) continue;
      PutElement(layout.type, 0, left.data() + line * layout.pitch_bytes(), i);
    }
  }
  return Compute(problem, left.data(), c.data());
}

Operands::Results Operands::ExpectedWithCFrom(const jit::Problem& problem,
                                              int64_t lines) const {
  const jit::MatrixLayout layout = problem.c();
  const auto pitch = static_cast<size_t>(layout.pitch_bytes());
  std::string moved(c.data(), c.size());
  for (int64_t line = 0; line < layout.lines(); ++line) {
    const int64_t from =
        std::clamp<int64_t>(line + lines, 0, layout.lines() - 1);
    std::memcpy(moved.data() + line * pitch, c.data() + from * pitch, pitch);
  }
  return Compute(problem, a.data(), moved.data());
}

Operands::Results Operands::Compute(const jit::Problem& problem, const char* a,
                                    const char* c) const {
  Results results;
  results.d.assign(d.size(), kUnwritten);
  results.auxiliary.assign(auxiliary.size(), kUnwritten);
  const host::GemmOperands operands = {
      .a = problem.reads_ab() ? a : nullptr,
      .b = problem.reads_ab() ? b.data() : nullptr,
      .c = problem.reads_c() ? c : nullptr,
      .d = results.d.data(),
      .bias = bias.data(),
      .a_scale = a_scale.data(),
      .b_scale = b_scale.data(),
      .d_scale = d_scale.data(),
      .auxiliary = problem.epilogue.writes_auxiliary ? results.auxiliary.data()
                                                     : nullptr,
      .amax = &results.amax};
  if (numbers_ && problem.reads_ab()) {
    host::Gemm(problem, plan_, operands);
  } else {
    host::Gemm(problem, operands);
  }
  return results;
}

std::string Difference(const std::string& what, const MatrixLayout& layout,
                       double tolerance, const char* d,
                       const std::string& expected) {
  // Near zero, activations are differences of greater numbers.
  constexpr double kLeastScale = 0.125;
  int64_t wrong = 0;
  std::string first;
  for (int64_t line = 0; line < layout.lines(); ++line) {
    const int64_t start = line * layout.pitch_bytes();
    for (int64_t i = 0; i < layout.width(); ++i) {
      const double is = ElementAt(layout.type, d + start, i);
      const double should = ElementAt(layout.type, expected.data() + start, i);
      const auto size = static_cast<size_t>(jit::BytesOf(layout.type));
      const auto at = static_cast<size_t>(start) + size * i;
      if (std::memcmp(d + at, expected.data() + at, size) == 0 ||
          std::abs(is - should) <
              tolerance * std::max(std::abs(should), kLeastScale)) {
        continue;
      }
      if (wrong++ == 0) {
        first = absl::StrCat("line ", line, ", element ", i, " is ", is,
                             ", should be ", should);
      }
    }
  }
  if (wrong == 0) return "";
  return absl::StrCat("wrong ", what, ": ", wrong, " of ",
                      layout.lines() * layout.width(), " elements; the first, ",
                      first);
}

}  // namespace gemmd::emulator
