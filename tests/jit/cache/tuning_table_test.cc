// Tuning records in memory, and what is left of them when a daemon starts
// again.
#include "jit/cache/tuning_table.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "jit/problem/problem_line.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

Problem Parse(const std::string& line) { return *ParseProblemLine(line); }

TuningRecord RecordOf(const std::string& line, int splits) {
  return {.problem_class = ProblemClass(Parse(line)),
          .device = "H100",
          .kernel = "gemm_x",
          .splits = splits,
          .raster_group = 8};
}

constexpr char kLine[] = "bf16 TN 512 512 8192";

TEST(TuningTableTest, FindsByProblemAndDevice) {
  TuningTable table({}, "digest");
  ASSERT_TRUE(table.Put(RecordOf(kLine, 4)).ok());
  ASSERT_TRUE(table.Find(Parse(kLine), "H100"));
  EXPECT_EQ(table.Find(Parse(kLine), "H100")->splits, 4);
  EXPECT_TRUE(
      table.Find(Parse(std::string(kLine) + " alpha=1 beta=0"), "H100"));
  EXPECT_FALSE(table.Find(Parse(std::string(kLine) + " beta=1"), "H100"));
  EXPECT_FALSE(table.Find(Parse("bf16 TN 512 512 8191"), "H100"));
  EXPECT_FALSE(table.Find(Parse(kLine), "H200"));
}

TEST(TuningTableTest, RecordsOutliveTheProcess) {
  const TemporaryDirectory directory;
  {
    TuningTable table({.directory = directory.path()}, "digest");
    ASSERT_TRUE(table.Put(RecordOf(kLine, 4)).ok());
    ASSERT_TRUE(table.Put(RecordOf(kLine, 5)).ok());
  }
  const TuningTable table({.directory = directory.path()}, "digest");
  ASSERT_TRUE(table.Find(Parse(kLine), "H100"));
  EXPECT_EQ(table.Find(Parse(kLine), "H100")->splits, 5);
  EXPECT_EQ(table.size(), 1);
}

// The same config of other templates is another kernel.
TEST(TuningTableTest, RecordsOfOtherTemplatesAreNotUsed) {
  const TemporaryDirectory directory;
  {
    TuningTable table({.directory = directory.path()}, "digest");
    ASSERT_TRUE(table.Put(RecordOf(kLine, 4)).ok());
  }
  TuningTable table({.directory = directory.path()}, "other");
  EXPECT_FALSE(table.Find(Parse(kLine), "H100"));
  EXPECT_EQ(table.size(), 0);
}

TEST(TuningTableTest, LayersAreReadAndTheDirectoryCountsMore) {
  const TemporaryDirectory layer;
  const TemporaryDirectory directory;
  {
    TuningTable table({.directory = layer.path()}, "digest");
    ASSERT_TRUE(table.Put(RecordOf(kLine, 4)).ok());
    ASSERT_TRUE(table.Put(RecordOf("bf16 TN 1 2 3", 1)).ok());
  }
  const TuningTable::Options options = {.directory = directory.path(),
                                        .layers = {layer.path()}};
  {
    TuningTable table(options, "digest");
    EXPECT_EQ(table.size(), 2);
    ASSERT_TRUE(table.Put(RecordOf(kLine, 7)).ok());
  }
  EXPECT_EQ(TuningTable(options, "digest").Find(Parse(kLine), "H100")->splits,
            7);
  EXPECT_EQ(TuningStore(layer.path(), true).All().size(), 2u);
}

// Another start of the daemon would not know it, and serve other bits.
TEST(TuningTableTest, WhatCannotBeWrittenIsNotUsed) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory.path() + "/tuning");
  std::filesystem::permissions(directory.path() + "/tuning",
                               std::filesystem::perms::all);
  TuningTable table({.directory = directory.path()}, "digest");
  EXPECT_FALSE(table.Put(RecordOf(kLine, 4)).ok());
  EXPECT_FALSE(table.Find(Parse(kLine), "H100"));
}

TEST(TuningTableTest, RecordsAreBounded) {
  TuningTable table({.max_records = 2}, "digest");
  ASSERT_TRUE(table.Put(RecordOf("bf16 TN 1 2 3", 1)).ok());
  ASSERT_TRUE(table.Put(RecordOf("bf16 TN 1 2 4", 1)).ok());
  EXPECT_EQ(table.Put(RecordOf("bf16 TN 1 2 5", 1)).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(table.Put(RecordOf("bf16 TN 1 2 4", 3)).ok());
}

}  // namespace
}  // namespace gemmd::jit
