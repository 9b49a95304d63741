// The kernels that derive forms: what they write, that they write nothing else,
// and that they read nothing else.
#include "templates/common/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "jit/plan/form.h"
#include "jit/source/instance.h"
#include "service/host/numbers.h"
#include "tests/emulator/host_source.h"
#include "tests/emulator/machine/global_memory.h"
#include "tests/emulator/machine/grid.h"
#include "tests/emulator/module.h"

namespace gemmd::emulator {
namespace {

using jit::DataType;
using jit::Form;
using jit::MatrixLayout;
using jit::Order;

class Memory : public GlobalBlock {
 public:
  explicit Memory(int64_t bytes) : GlobalBlock(static_cast<size_t>(bytes)) {
    std::memset(GlobalBlock::data(), 0xc5, size());
  }
  unsigned char* data() const {
    return reinterpret_cast<unsigned char*>(GlobalBlock::data());
  }
};

void Randomize(Memory& memory, unsigned seed) {
  std::mt19937 random(seed);
  for (size_t i = 0; i < memory.size(); ++i) {
    memory.data()[i] = static_cast<unsigned char>(random());
  }
}

// The kernel that makes `form` of elements of so many bits, compiled once.
const Module* KernelOf(Form form, DataType type) {
  static std::map<std::pair<Form, int>, std::unique_ptr<Module>> modules;
  auto& module = modules[{form, jit::BitsOf(type)}];
  if (module != nullptr) return module.get();
  const auto source = HostPrepareSource(form, type);
  if (!source.ok()) return nullptr;
  auto compiled =
      Module::Compile(absl::StrCat("prepare_", jit::Name(type)), *source);
  if (compiled.ok()) module = *std::move(compiled);
  return module.get();
}

// Runs the kernel of `form` by `grid` CTAs.
void Derive(const MatrixLayout& stored, Form form, int grid, Memory& from,
            Memory& to) {
  const Module* module = KernelOf(form, stored.type);
  ASSERT_NE(module, nullptr);
  const auto kernel = module->Kernel<PrepareArguments>(jit::kKernelSymbol);
  PrepareArguments arguments = jit::PrepareLaunchOf(stored, form).arguments;
  arguments.from = from.data();
  arguments.to = to.data();
  Reports reports;
  from.Lock();
  to.Lock();
  RunGrid(
      {.ctas = grid,
       .threads = kPrepareThreads,
       .dependencies =
           [&] {
             from.Unlock();
             to.Unlock();
           }},
      [&] { kernel(arguments); }, reports);
  from.Unlock();
  to.Unlock();
  EXPECT_THAT(reports.texts(), testing::IsEmpty());
}

// Bits [bits * element, bits * (element + 1)) of a line.
uint32_t Element(const unsigned char* line, int64_t element, int bits) {
  if (bits == 1) return line[element / 8] >> element % 8 & 1;
  uint32_t value = 0;
  std::memcpy(&value, line + element * bits / 8, static_cast<size_t>(bits / 8));
  return value;
}

struct Shape {
  int64_t lines;
  int64_t width;
};

void ExpectTransposes(DataType type, const Shape& shape, int matrices) {
  SCOPED_TRACE(testing::Message() << jit::Name(type) << " " << shape.lines
                                  << "x" << shape.width << ", " << matrices);
  const int bits = jit::BitsOf(type);
  const MatrixLayout stored = {.type = type,
                               .rows = shape.lines,
                               .columns = shape.width,
                               .count = matrices};
  const MatrixLayout layout = jit::FormLayout(stored, Form::kTransposed);
  ASSERT_EQ(layout.width(), shape.lines);
  ASSERT_EQ(layout.lines(), matrices * shape.width);
  Memory from(stored.device_bytes());
  Memory to(layout.device_bytes());
  Randomize(from, 20261121);
  const int grid = jit::PrepareLaunchOf(stored, Form::kTransposed).grid;
  // Fewer CTAs than the planner asks for have to do as well.
  Derive(stored, Form::kTransposed, std::max(1, grid / 2), from, to);
  int64_t wrong = 0;
  int64_t dirty = 0;
  // Elements up to the end of the last word have to be there, as zeros.
  const int64_t whole = PiecesOf(shape.lines * bits, 128) * 128 / bits;
  for (int64_t line = 0; line < matrices * shape.width; ++line) {
    const int64_t matrix = line / shape.width;
    const int64_t column = line % shape.width;
    const unsigned char* written = to.data() + line * layout.pitch_bytes();
    for (int64_t i = 0; i < shape.lines; ++i) {
      const unsigned char* read =
          from.data() + (matrix * shape.lines + i) * stored.pitch_bytes();
      wrong += Element(written, i, bits) != Element(read, column, bits);
    }
    for (int64_t i = shape.lines; i < whole; ++i) {
      dirty += Element(written, i, bits) != 0;
    }
  }
  EXPECT_EQ(wrong, 0) << "elements are not where they belong";
  EXPECT_EQ(dirty, 0) << "elements behind the last are not zero";
}

TEST(TransposeKernel, TransposesMatricesOfAnySize) {
  for (const DataType type : {DataType::kS8, DataType::kF32, DataType::kB1}) {
    for (const Shape shape :
         {Shape{1, 1}, Shape{1, 300}, Shape{300, 1}, Shape{16, 16},
          Shape{15, 17}, Shape{128, 128}, Shape{129, 257}, Shape{640, 520},
          Shape{31, 1030}}) {
      ExpectTransposes(type, shape, 1);
    }
  }
}

TEST(TransposeKernel, TransposesEachMatrixOfABatch) {
  for (const DataType type : {DataType::kE4m3, DataType::kF32, DataType::kB1}) {
    ExpectTransposes(type, {33, 65}, 3);
  }
}

TEST(TransposeKernel, TakesAsManyCtasAsItHasWork) {
  const auto grid = [](DataType type, int64_t lines, int64_t width) {
    return jit::PrepareLaunchOf({type, Order::kRowMajor, lines, width},
                                Form::kTransposed)
        .grid;
  };
  // A CTA moves 256 lines of 128 bytes, 32 of 256, or 1024 of 64.
  EXPECT_EQ(grid(DataType::kS8, 8192, 8192), 32 * 64);
  EXPECT_EQ(grid(DataType::kS8, 8193, 8193), 33 * 65);
  EXPECT_EQ(grid(DataType::kF32, 8192, 8192), 256 * 128);
  EXPECT_EQ(grid(DataType::kB1, 8192, 8192), 8 * 16);
  EXPECT_EQ(grid(DataType::kS8, 1, 1), 1);
}

struct Parts {
  float high, middle, low;
  double sum() const { return double{high} + middle + low; }
};

// The planes of `values`, split as matrices of `lines` lines of `width`.
std::vector<Parts> SplitOf(const std::vector<float>& values, int64_t width,
                           int64_t lines) {
  const int64_t all_lines = static_cast<int64_t>(values.size()) / width;
  const MatrixLayout stored = {.type = DataType::kF32,
                               .rows = lines,
                               .columns = width,
                               .count = all_lines / lines};
  const MatrixLayout layout = jit::FormLayout(stored, Form::kSplit);
  Memory from(stored.device_bytes());
  Memory to(layout.device_bytes());
  Randomize(from, 7);  // Padding holds anything.
  for (int64_t line = 0; line < all_lines; ++line) {
    std::memcpy(from.data() + line * stored.pitch_bytes(),
                values.data() + line * width, static_cast<size_t>(4 * width));
  }
  const int grid = jit::PrepareLaunchOf(stored, Form::kSplit).grid;
  Derive(stored, Form::kSplit, std::max(1, grid / 2), from, to);
  const auto part = [&](int plane, int64_t line, int64_t i) {
    const int64_t matrix = plane * stored.count + line / lines;
    uint16_t bits;
    std::memcpy(&bits,
                to.data() +
                    (matrix * lines + line % lines) * layout.pitch_bytes() +
                    2 * i,
                2);
    return bits;
  };
  std::vector<Parts> parts;
  int64_t dirty = 0;
  for (int64_t line = 0; line < all_lines; ++line) {
    for (int64_t i = 0; i < width; ++i) {
      parts.push_back({host::FromBf16(part(0, line, i)),
                       host::FromBf16(part(1, line, i)),
                       host::FromBf16(part(2, line, i))});
    }
    for (int64_t i = width; i < PiecesOf(width, 8) * 8; ++i) {
      for (int plane = 0; plane < kSplitPlanes; ++plane) {
        dirty += part(plane, line, i) != 0;
      }
    }
  }
  EXPECT_EQ(dirty, 0) << "elements behind the last are not zero";
  return parts;
}

Parts SplitOf(float value) { return SplitOf({value}, 1, 1)[0]; }

TEST(SplitKernel, PartsAddUpToTheElementInMatricesOfAnyWidth) {
  std::mt19937 random(5);
  for (const int64_t width : {1, 4, 5, 8, 9, 31, 520}) {
    std::vector<float> values(static_cast<size_t>(width * 7));
    for (float& value : values) {
      // Exponents of -100 to 127.
      value = std::bit_cast<float>(static_cast<uint32_t>(
          (27 + random() % 228) << 23 | (random() & 0x807fffff)));
    }
    const std::vector<Parts> parts = SplitOf(values, width, 7);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(parts[i].sum(), double{values[i]}) << width << ", " << i;
      EXPECT_LE(std::abs(parts[i].middle), std::abs(values[i]) * 0x1p-7);
      EXPECT_LE(std::abs(parts[i].low), std::abs(values[i]) * 0x1p-15);
    }
  }
}

TEST(SplitKernel, APlaneHasAllMatricesOfABatch) {
  std::vector<float> values;
  for (int i = 0; i < 3 * 4 * 9; ++i) values.push_back(1 + 0x1.234p-7f * i);
  const std::vector<Parts> parts = SplitOf(values, 9, 4);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(parts[i].sum(), double{values[i]}) << i;
  }
}

TEST(SplitKernel, RoundsToNearestAtEachLevel) {
  const Parts parts = SplitOf(1 + 0x1.8p-8f);  // Nearer to 1 + 2^-7 than to 1.
  EXPECT_EQ(parts.high, 1 + 0x1p-7f);
  EXPECT_EQ(parts.middle, -0x1p-9f);
  EXPECT_EQ(parts.low, 0);
}

TEST(SplitKernel, NoFiniteElementBecomesInfinite) {
  for (const uint32_t bits :
       {0x7f7fffffu, 0x7f7f8000u, 0x7f7f7fffu, 0x7f7f8001u}) {
    for (const uint32_t sign : {0u, 0x80000000u}) {
      const float value = std::bit_cast<float>(bits | sign);
      const Parts parts = SplitOf(value);
      EXPECT_TRUE(std::isfinite(parts.high)) << value;
      EXPECT_EQ(parts.sum(), double{value});
    }
  }
}

TEST(SplitKernel, LowerPartsOfInfinitiesAndNansAreZero) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value :
       {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(),
        std::bit_cast<float>(0x7f800001u)}) {
    // Beside a finite neighbour, which shares its registers.
    const std::vector<Parts> parts = SplitOf({value, 3.14159f, value}, 3, 1);
    for (const int i : {0, 2}) {
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(parts[i].high));
      } else {
        EXPECT_EQ(parts[i].high, value);
      }
      EXPECT_EQ(std::bit_cast<uint32_t>(parts[i].middle), 0u);
      EXPECT_EQ(std::bit_cast<uint32_t>(parts[i].low), 0u);
    }
    EXPECT_EQ(parts[1].sum(), double{3.14159f});
  }
}

TEST(SplitKernel, SubnormalsAreAsExactAsBf16Is) {
  for (const float value : {0x1p-133f, 0x1.fcp-127f, -0x1.8p-132f, 0.0f}) {
    EXPECT_EQ(SplitOf(value).sum(), double{value});
  }
  std::mt19937 random(9);
  for (int i = 0; i < 200; ++i) {
    const float value = std::bit_cast<float>(
        static_cast<uint32_t>(random() % 0x08000000));  // Below 2^-110.
    EXPECT_LE(std::abs(SplitOf(value).sum() - double{value}), 0x1p-134)
        << value;
  }
}

}  // namespace
}  // namespace gemmd::emulator
