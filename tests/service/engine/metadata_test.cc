#include "service/engine/metadata.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gemmd::engine {
namespace {

using jit::DataType;
using jit::MatrixLayout;
using jit::Order;

// Ten chunks of s8, so that a line is 20 values and 5 bytes.
constexpr MatrixLayout kEven = {DataType::kS8, Order::kRowMajor, 3, 40, 1,
                                true};
// Nine: 18 values, 5 bytes, the last of which has half a byte of slack.
constexpr MatrixLayout kOdd = {DataType::kS8, Order::kRowMajor, 3, 36, 1, true};
constexpr char kRule[] =
    "; allowed: 0x4, 0x8, 0x9, 0xc, 0xd or 0xe, the places of two of four "
    "elements in ascending order";

// Lines `pitch` bytes apart whose values look like bad metadata.
std::string Lines(const MatrixLayout& layout, int64_t pitch) {
  std::string bytes(layout.lines() * pitch, '\0');
  for (int64_t i = 0; i < layout.lines(); ++i) {
    for (int64_t j = 0; j < layout.metadata_bytes(); ++j) {
      bytes[i * pitch + layout.values_bytes() + j] =
          static_cast<char>(j % 2 == 0 ? 0xe4 : 0xd9);
    }
  }
  return bytes;
}

// In pieces of `size` bytes.
std::vector<absl::Span<const char>> Cut(absl::string_view bytes, size_t size) {
  std::vector<absl::Span<const char>> pieces;
  for (; !bytes.empty(); bytes.remove_prefix(pieces.back().size())) {
    pieces.push_back({bytes.data(), std::min(size, bytes.size())});
  }
  return pieces;
}

absl::Status Check(const MatrixLayout& layout, absl::string_view bytes,
                   size_t piece, int64_t pitch, device::LineRange lines) {
  const auto pieces = Cut(bytes, piece);
  return CheckMetadata("data", layout, {pieces, pitch}, lines);
}

TEST(CheckMetadataTest, FindsEveryPlaceHoweverLinesAreCut) {
  for (const MatrixLayout& layout : {kEven, kOdd}) {
    for (const int64_t pitch : {layout.width_bytes(), int64_t{31}}) {
      const std::string right = Lines(layout, pitch);
      for (const size_t piece : {1, 3, 24, 1000}) {
        EXPECT_TRUE(Check(layout, right, piece, pitch, {0, 3}).ok());
        for (int64_t line = 0; line < 3; ++line) {
          for (int64_t chunk = 0; chunk < layout.width() / 4; ++chunk) {
            std::string wrong = right;
            char& byte =
                wrong[line * pitch + layout.values_bytes() + chunk / 2];
            byte = static_cast<char>(chunk % 2 == 0 ? (byte & 0xf0) | 0x5
                                                    : (byte & 0xf) | 0x50);
            EXPECT_EQ(
                Check(layout, wrong, piece, pitch, {0, 3}).message(),
                absl::StrCat("data has metadata 0x5 for k ", 4 * chunk, " to ",
                             4 * chunk + 3, " of row ", line, kRule));
          }
        }
      }
    }
  }
}

TEST(CheckMetadataTest, EveryIllegalValueIsRefusedButInTheSlack) {
  const int64_t pitch = kOdd.width_bytes();
  for (int value = 0; value < 16; ++value) {
    std::string bytes = Lines(kOdd, pitch);
    char& last = bytes[pitch - 1];
    last = static_cast<char>(value << 4 | 0x4);
    EXPECT_TRUE(Check(kOdd, bytes, 1000, pitch, {0, 3}).ok()) << value;
    last = static_cast<char>(value);
    const bool legal = value == 0x4 || value == 0x8 || value == 0x9 ||
                       value == 0xc || value == 0xd || value == 0xe;
    EXPECT_EQ(Check(kOdd, bytes, 1000, pitch, {0, 3}).ok(), legal) << value;
  }
}

TEST(CheckMetadataTest, PartsOfALineKnowWhereTheyAre) {
  const MatrixLayout layout = {
      DataType::kBf16, Order::kColumnMajor, 16000, 2, 1, true};
  const std::string line = Lines(layout, layout.width_bytes());
  const int64_t values = layout.values_bytes();
  ASSERT_EQ(values, 16000);
  const int64_t part = device::kLinePartBytes;
  const auto check = [&](const std::string& bytes, int64_t first,
                         int64_t count) {
    return Check(layout, bytes.substr(first, count), 100, 1 << 20,
                 {1, 1, first, count});
  };
  std::string wrong = line;
  wrong[values + 1000] = 0x4f;
  // Values alone, values with metadata, metadata alone.
  EXPECT_TRUE(check(wrong, 0, part).ok());
  EXPECT_TRUE(check(wrong, 2 * part, part).ok());
  EXPECT_TRUE(check(line, 3 * part, part).ok());
  const std::string expected = absl::StrCat(
      "data has metadata 0xf for k 8000 to 8003 of column 1", kRule);
  EXPECT_EQ(check(wrong, 3 * part, part + 1904).message(), expected);
  EXPECT_EQ(check(wrong, 4 * part, 1616).message(), expected);
}

TEST(CheckMetadataTest, OfABatchTheMatrixIsNamed) {
  MatrixLayout layout = kEven;
  layout.count = 2;
  const int64_t pitch = layout.width_bytes();
  std::string bytes = Lines(layout, pitch);
  bytes[5 * pitch - 1] = 0x40;
  EXPECT_EQ(Check(layout, bytes, 7, pitch, {0, 6}).message(),
            absl::StrCat("data has metadata 0x0 for k 32 to 35 of row 1 of "
                         "matrix 1",
                         kRule));
}

TEST(CheckMetadataTest, F32HasOneOfTwo) {
  const MatrixLayout layout = {DataType::kF32, Order::kRowMajor, 1, 4, 1, true};
  std::string bytes(9, '\0');
  bytes[8] = static_cast<char>(0xe4);
  EXPECT_TRUE(Check(layout, bytes, 9, 9, {0, 1}).ok());
  bytes[8] = static_cast<char>(0x94);
  EXPECT_EQ(Check(layout, bytes, 9, 9, {0, 1}).message(),
            "data has metadata 0x9 for k 2 to 3 of row 0; allowed: 0x4 or 0xe, "
            "the place of one of two elements");
}

TEST(CheckMetadataTest, DenseBytesAreLeftAlone) {
  MatrixLayout layout = kEven;
  layout.sparse = false;
  EXPECT_TRUE(Check(layout, std::string(120, '\0'), 120, 40, {0, 3}).ok());
}

class CheckProductTest : public ::testing::Test {
 protected:
  CheckProductTest() {
    jit::Problem& problem = product_.problem;
    problem = {.m = 3, .n = 2, .k = 40, .batch = 2};
    problem.a_type = problem.b_type = DataType::kS8;
    problem.sparse = jit::Sparse::kA;
  }

  // A of which matrix `i` begins at i * stride.
  absl::Status CheckA(const std::string& bytes, int64_t stride) {
    product_.a.pieces = Cut(bytes, 10);
    product_.a.pitch_bytes = 25;
    product_.a.matrix_bytes = stride;
    return CheckMetadata(product_);
  }

  Product product_;
};

TEST_F(CheckProductTest, MatricesMayLieApartOrOverlap) {
  MatrixLayout four = kEven;
  four.rows = 4;
  std::string bytes = Lines(four, 25);
  // Rows 0 to 2, and 1 to 3.
  EXPECT_TRUE(CheckA(bytes, 25).ok());
  bytes[99] = 0x04;
  EXPECT_EQ(CheckA(bytes, 25).message(),
            absl::StrCat("a has metadata 0x0 for k 36 to 39 of row 2 of matrix "
                         "1",
                         kRule));
  MatrixLayout six = kEven;
  six.count = 2;
  bytes = Lines(six, 25);
  bytes.insert(75, 10, '\0');
  EXPECT_TRUE(CheckA(bytes, 85).ok());
}

TEST_F(CheckProductTest, OfTheSparseOperandAlone) {
  const std::string zeros(1000, '\0');
  product_.b.pieces = Cut(zeros, 1000);
  EXPECT_FALSE(CheckA(zeros, 75).ok());
  product_.problem.sparse = jit::Sparse::kNone;
  EXPECT_TRUE(CheckMetadata(product_).ok());
  product_.problem.sparse = jit::Sparse::kB;
  product_.problem.b_order = Order::kColumnMajor;
  product_.b.pitch_bytes = 25;
  product_.b.matrix_bytes = 50;
  EXPECT_EQ(CheckMetadata(product_).message(),
            absl::StrCat("b has metadata 0x0 for k 0 to 3 of column 0 of matrix"
                         " 0",
                         kRule));
  product_.problem.alpha = 0;
  EXPECT_TRUE(CheckMetadata(product_).ok()) << "it is not read";
}

}  // namespace
}  // namespace gemmd::engine
