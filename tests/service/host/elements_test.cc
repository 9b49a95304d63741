#include "service/host/elements.h"

#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "jit/problem/layout.h"

namespace gemmd::host {
namespace {

using jit::DataType;
using jit::MatrixLayout;
using jit::Order;

// `count` elements of a line of s8 from `first` on.
std::vector<double> Loaded(const std::vector<int>& line, int64_t width,
                           int64_t first, int64_t count) {
  const std::vector<char> bytes(line.begin(), line.end());
  const MatrixLayout layout = {DataType::kS8, Order::kRowMajor, 1, width, 1,
                               true};
  std::vector<double> values(count, -1);
  Load(layout, Reading::kExact, bytes.data(), first, count, values.data());
  return values;
}

using Values = std::vector<double>;

TEST(LoadTest, PutsValuesOfASparseLineInTheirPlaces) {
  EXPECT_EQ(Loaded({1, 2, 0x4}, 4, 0, 4), Values({1, 2, 0, 0}));
  EXPECT_EQ(Loaded({1, 2, 0x8}, 4, 0, 4), Values({1, 0, 2, 0}));
  EXPECT_EQ(Loaded({1, 2, 0x9}, 4, 0, 4), Values({0, 1, 2, 0}));
  EXPECT_EQ(Loaded({1, 2, 0xc}, 4, 0, 4), Values({1, 0, 0, 2}));
  EXPECT_EQ(Loaded({1, 2, 0xd}, 4, 0, 4), Values({0, 1, 0, 2}));
  EXPECT_EQ(Loaded({1, 2, 0xe}, 4, 0, 4), Values({0, 0, 1, 2}));
}

TEST(LoadTest, TheLowerHalfOfAByteIsTheChunkOfLowerK) {
  const std::vector<int> line = {1, 2, 3, 4, 5, 6, 0xe4, 0x09};
  EXPECT_EQ(Loaded(line, 12, 0, 12),
            Values({1, 2, 0, 0, 0, 0, 3, 4, 0, 5, 6, 0}));
  EXPECT_EQ(Loaded(line, 12, 4, 4), Values({0, 0, 3, 4}));
  EXPECT_EQ(Loaded(line, 12, 8, 4), Values({0, 5, 6, 0}));
}

TEST(LoadTest, OfF32OneOfTwoIsStored) {
  const float stored[] = {1.5, 2.5, 3.5};
  std::vector<char> line(sizeof stored + 2);
  std::memcpy(line.data(), stored, sizeof stored);
  line[12] = static_cast<char>(0xe4);
  line[13] = 0x0e;
  const MatrixLayout layout = {
      DataType::kF32, Order::kColumnMajor, 6, 1, 1, true};
  Values values(6, -1);
  Load(layout, Reading::kExact, line.data(), 0, 6, values.data());
  EXPECT_EQ(values, Values({1.5, 0, 0, 2.5, 0, 3.5}));
}

Values LoadedNibbles(DataType type, int64_t first, int64_t count) {
  const unsigned char line[] = {0x70, 0x8f, 0xf1};
  Values values(count, -1);
  Load(type, Reading::kExact, reinterpret_cast<const char*>(line), first, count,
       values.data());
  return values;
}

TEST(LoadTest, TheLowerHalfOfAByteIsTheFirstOfTwoNumbers) {
  EXPECT_EQ(LoadedNibbles(DataType::kU4, 0, 6), Values({0, 7, 15, 8, 1, 15}));
  EXPECT_EQ(LoadedNibbles(DataType::kS4, 0, 6), Values({0, 7, -1, -8, 1, -1}));
  EXPECT_EQ(LoadedNibbles(DataType::kU4, 3, 2), Values({8, 1}));
  EXPECT_EQ(LoadedNibbles(DataType::kS4, 5, 1), Values({-1}));
}

// Elements, then the scales of groups, then their zero points.
std::string QuantizedLine(const std::string& elements,
                          const std::vector<float>& scales,
                          const std::vector<int>& zero_points) {
  std::string line = elements;
  line.append(reinterpret_cast<const char*>(scales.data()), 4 * scales.size());
  line.append(zero_points.begin(), zero_points.end());
  return line;
}

Values LoadedQuantized(const MatrixLayout& layout, Reading reading,
                       const std::string& line, int64_t first, int64_t count) {
  EXPECT_EQ(layout.width_bytes(), std::ssize(line));
  Values values(count, -1);
  Load(layout, reading, line.data(), first, count, values.data());
  return values;
}

// 67 elements of 15, an odd number: the last half of their bytes is nothing.
TEST(LoadTest, AQuantizedElementStandsForScaleTimesWhatZeroPointsLeave) {
  MatrixLayout layout = {DataType::kU4, Order::kColumnMajor, 67, 1};
  layout.quantization = {.group = 32, .zero_points = true};
  const std::string line =
      QuantizedLine(std::string(34, '\xff'), {2, -0.5, 1e30}, {-128, 127, 15});
  EXPECT_EQ(LoadedQuantized(layout, Reading::kExact, line, 30, 4),
            Values({286, 286, 56, 56}));
  EXPECT_EQ(LoadedQuantized(layout, Reading::kExact, line, 63, 4),
            Values({56, 0, 0, 0}));
  EXPECT_EQ(LoadedQuantized(layout, Reading::kUnscaled, line, 31, 2),
            Values({143, -112}));
}

TEST(LoadTest, AGroupMayBeAllOfALine) {
  MatrixLayout layout = {DataType::kS8, Order::kRowMajor, 1, 3};
  layout.quantization.group = jit::kWholeLine;
  const std::string line = QuantizedLine({-128, 0, 127}, {0.25}, {});
  EXPECT_EQ(LoadedQuantized(layout, Reading::kExact, line, 0, 3),
            Values({-32, 0, 31.75}));
  EXPECT_EQ(LoadedQuantized(layout, Reading::kUnscaled, line, 0, 3),
            Values({-128, 0, 127}));
}

}  // namespace
}  // namespace gemmd::host
