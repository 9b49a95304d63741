#include "service/host/elements.h"

#include <gtest/gtest.h>

#include <cstring>
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

}  // namespace
}  // namespace gemmd::host
