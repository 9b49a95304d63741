#include "tests/bench/prepare/reference.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "service/host/numbers.h"

namespace gemmd::bench {
namespace {

using jit::DataType;
using jit::Form;
using jit::Order;

TEST(ReferenceTest, TransposesBytesAndWords) {
  EXPECT_EQ(Reference({DataType::kS8, Order::kRowMajor, 2, 3},
                      Form::kTransposed, "abcdef"),
            "adbecf");
  EXPECT_EQ(Reference({DataType::kF32, Order::kColumnMajor, 2, 2},
                      Form::kTransposed, "aaaabbbbccccdddd"),
            "aaaaccccbbbbdddd");
}

TEST(ReferenceTest, TransposesBitsFromTheLowest) {
  // Nine lines of two bits; line i holds bit 0 when i is even, bit 1 when it
  // is 8, and dirt behind.
  std::string lines;
  for (int i = 0; i < 9; ++i) {
    lines += static_cast<char>((i % 2 == 0) | (i == 8) << 1 | 0xfc);
  }
  EXPECT_EQ(Reference({DataType::kB1, Order::kRowMajor, 9, 2},
                      Form::kTransposed, lines),
            std::string("\x55\x01\x00\x01", 4));
}

TEST(ReferenceTest, SplitsIntoPlanes) {
  const float value = 1 + 0x1p-8f + 0x1p-20f;
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  const std::string planes =
      Reference({DataType::kF32, Order::kRowMajor, 1, 1}, Form::kSplit, bytes);
  double sum = 0;
  for (int plane = 0; plane < 3; ++plane) {
    uint16_t part;
    std::memcpy(&part, &planes[static_cast<size_t>(2 * plane)], 2);
    sum += host::FromBf16(part);
  }
  EXPECT_EQ(sum, double{value});
}

}  // namespace
}  // namespace gemmd::bench
