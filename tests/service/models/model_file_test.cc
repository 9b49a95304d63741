#include "service/models/model_file.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "service/models/copy.h"
#include "service/models/name.h"
#include "tests/fuzz/mutate.h"

namespace gemmd::models {
namespace {

FileHeader Header() {
  FileHeader header;
  header.spec.name = "linear";
  header.spec.owner = "alice";
  header.spec.shared = true;
  header.has_bias = true;
  jit::Problem& problem = header.spec.problem;
  problem.m = 1;
  problem.n = 20;
  problem.k = 30;
  problem.batch = 2;
  problem.b_order = jit::Order::kColumnMajor;
  problem.alpha = 0.5f;
  problem.epilogue.bias = jit::Extent::kColumn;
  problem.epilogue.activation = jit::Activation::kSilu;
  return header;
}

TEST(ModelFileTest, AHeaderSaysWhatTheModelIs) {
  const FileHeader header = Header();
  const std::string bytes = ToBytes(header);
  EXPECT_EQ(bytes.size(), kFileHeaderBytes);
  const FileHeader read = ToFileHeader(bytes).value();
  EXPECT_EQ(read.spec.name, "linear");
  EXPECT_EQ(read.spec.owner, "alice");
  EXPECT_TRUE(read.spec.shared);
  EXPECT_TRUE(read.has_bias);
  EXPECT_EQ(read.layouts(), header.layouts());
  EXPECT_EQ(read.spec.problem.alpha, 0.5f);
  EXPECT_EQ(read.spec.problem.epilogue, header.spec.problem.epilogue);
  EXPECT_EQ(read.file_bytes(), 4096 + 2 * 20 * 30 * 2 + 20 * 4 + 32);
}

TEST(ModelFileTest, AHeaderSaysHowWeightsAreQuantized) {
  FileHeader header = Header();
  jit::Problem& problem = header.spec.problem;
  problem.b_type = jit::DataType::kU4;
  problem.quantization = {.group = 32, .zero_points = true};
  const FileHeader read = ToFileHeader(ToBytes(header)).value();
  EXPECT_EQ(read.layouts(), header.layouts());
  EXPECT_EQ(read.file_bytes(), 4096 + 2 * 20 * (15 + 4 + 1) + 20 * 4 + 32);
}

TEST(ModelFileTest, ADamagedHeaderIsNone) {
  std::mt19937 random(1);
  const std::string good = ToBytes(Header());
  for (int i = 0; i < 3000; ++i) {
    const std::string bad = fuzz::Mutate(good, random);
    if (bad == good) continue;
    EXPECT_EQ(ToFileHeader(bad).status().code(), absl::StatusCode::kDataLoss);
  }
}

// Whole, and made by somebody who knows the format.
TEST(ModelFileTest, AHeaderThatLiesIsNone) {
  const auto refused = [](auto change) {
    FileHeader header = Header();
    change(header);
    return ToFileHeader(ToBytes(header)).status().code() ==
           absl::StatusCode::kDataLoss;
  };
  EXPECT_FALSE(refused([](FileHeader&) {}));
  EXPECT_TRUE(refused([](FileHeader& h) { h.spec.name = "../x"; }));
  EXPECT_TRUE(refused([](FileHeader& h) { h.spec.name = "matmul"; }));
  EXPECT_TRUE(refused([](FileHeader& h) { h.has_bias = false; }));
  EXPECT_TRUE(refused([](FileHeader& h) { h.spec.problem.n = 0; }));
  EXPECT_TRUE(refused([](FileHeader& h) { h.spec.problem.batch = 0; }));
  EXPECT_TRUE(refused([](FileHeader& h) { h.spec.problem.m = 2; }));
  EXPECT_TRUE(refused([](FileHeader& h) { h.spec.problem.k = -1; }));
  EXPECT_TRUE(refused([](FileHeader& h) {
    h.spec.problem.n = h.spec.problem.k = jit::kMaxDimension;
  }));
  EXPECT_TRUE(refused([](FileHeader& h) {
    h.spec.problem.batch = h.spec.problem.n = jit::kMaxDimension;
  }));
}

TEST(ModelFileTest, NamesAreThoseOfOwnerAndModelTogether) {
  EXPECT_NE(FileNameOf("a", "bc"), FileNameOf("ab", "c"));
  EXPECT_EQ(FileNameOf("a", "b"), FileNameOf("a", "b"));
}

TEST(ModelNameTest, MayBeAFewLetters) {
  for (const char* name : {"a", "Model-7.b_c", "matmul2"}) {
    EXPECT_TRUE(CheckName(name).ok()) << name;
  }
  for (const char* name :
       {"", "matmul", ".", ".a", "a/b", "a b", "a\n", "\xc3"}) {
    EXPECT_FALSE(CheckName(name).ok()) << name;
  }
  EXPECT_TRUE(CheckName(std::string(64, 'a')).ok());
  EXPECT_FALSE(CheckName(std::string(65, 'a')).ok());
}

TEST(PartsTest, CoverAMatrixOnce) {
  for (const jit::MatrixLayout& layout :
       {jit::MatrixLayout{.rows = 3, .columns = 5},
        jit::MatrixLayout{.rows = 100, .columns = 200'000},
        jit::MatrixLayout{.rows = 3, .columns = 9'000'001},
        jit::MatrixLayout{.rows = 7, .columns = kPartBytes / 2, .count = 2}}) {
    int64_t at = 0;
    while (at < TightBytes(layout)) {
      const device::LineRange lines = NextPart(layout, at);
      const int64_t bytes = BytesOf(layout, lines);
      EXPECT_EQ(lines.first * layout.width_bytes() + lines.first_byte, at);
      EXPECT_GT(bytes, 0);
      EXPECT_LE(bytes, kPartBytes);
      EXPECT_EQ(lines.first_byte % device::kLinePartBytes, 0);
      at += bytes;
    }
    EXPECT_EQ(at, TightBytes(layout));
  }
}

}  // namespace
}  // namespace gemmd::models
