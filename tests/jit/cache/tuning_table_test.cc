// Tuning records in memory, and what is left of them when a daemon starts
// again.
#include "jit/cache/tuning_table.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "jit/cache/tuning_store.h"
#include "jit/problem/problem_line.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

Problem Parse(const std::string& line) { return *ParseProblemLine(line); }

TuningRecord RecordOf(const std::string& line, int splits, int generation = 0) {
  return {.problem_class = ProblemClass(Parse(line)),
          .device = "H100",
          .kernel = "gemm_x",
          .splits = splits,
          .raster_group = 8,
          .generation = generation};
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
    ASSERT_TRUE(table.Put(RecordOf(kLine, 5, /*generation=*/1)).ok());
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
  EXPECT_EQ(TuningTable(options, "digest").size(), 2);
  // As of a daemon that served before it had the layer.
  TuningTable before({.directory = directory.path()}, "digest");
  ASSERT_TRUE(before.Put(RecordOf(kLine, 7)).ok());
  EXPECT_EQ(TuningTable(options, "digest").Find(Parse(kLine), "H100")->splits,
            7);
  EXPECT_EQ(TuningStore(layer.path(), true).All().readable.size(), 2u);
}

// What requests were served with by one of these, another one knows nothing of.
TEST(TuningTableTest, WithinAGenerationThePartsOfKStay) {
  const TemporaryDirectory directory;
  TuningTable one({.directory = directory.path()}, "digest");
  TuningTable other({.directory = directory.path()}, "digest");
  const TuningRecord first = *one.Put(RecordOf(kLine, 4, /*generation=*/1));
  EXPECT_EQ(*one.Put(RecordOf(kLine, 8, /*generation=*/1)), first);
  EXPECT_EQ(*other.Put(RecordOf(kLine, 8, /*generation=*/1)), first);
  EXPECT_EQ(*other.Find(Parse(kLine), "H100"), first);
  TuningRecord faster = first;
  faster.kernel = "gemm_y";
  EXPECT_EQ(*other.Put(faster), faster);
}

// Its parts of k were changed once and for all.
TEST(TuningTableTest, TheHighestGenerationCountsWhereverItLies) {
  const TemporaryDirectory layer;
  const TemporaryDirectory directory;
  const TuningTable::Options options = {.directory = directory.path(),
                                        .layers = {layer.path()}};
  const auto splits = [](const TuningTable& table) {
    return table.Find(Parse(kLine), "H100")->splits;
  };
  TuningTable of_layer({.directory = layer.path()}, "digest");
  ASSERT_TRUE(of_layer.Put(RecordOf(kLine, 4, /*generation=*/1)).ok());
  TuningTable early({.directory = directory.path()}, "digest");
  ASSERT_TRUE(early.Put(RecordOf(kLine, 8)).ok());

  TuningTable table(options, "digest");
  EXPECT_EQ(splits(table), 4);
  EXPECT_EQ(table.Put(RecordOf(kLine, 8))->splits, 4);
  EXPECT_EQ(splits(table), 4);
  ASSERT_TRUE(table.Put(RecordOf(kLine, 2, /*generation=*/2)).ok());
  EXPECT_EQ(splits(TuningTable(options, "digest")), 2);

  // One that has not seen it does not bring the old parts back.
  EXPECT_EQ(splits(early), 8);
  EXPECT_EQ(early.Put(RecordOf(kLine, 8))->splits, 2);
  EXPECT_EQ(splits(early), 2);
  EXPECT_EQ(splits(TuningTable(options, "digest")), 2);
}

TEST(TuningTableTest, TakesOverWhatAnotherProcessPutThere) {
  const TemporaryDirectory directory;
  TuningTable one({.directory = directory.path()}, "digest");
  TuningTable other({.directory = directory.path()}, "digest");
  EXPECT_FALSE(one.Refresh(Parse(kLine), "H100"));
  ASSERT_TRUE(other.Put(RecordOf(kLine, 4)).ok());
  EXPECT_TRUE(one.Refresh(Parse(kLine), "H100"));
  EXPECT_EQ(one.Find(Parse(kLine), "H100")->splits, 4);
  EXPECT_FALSE(one.Refresh(Parse(kLine), "H100"));
}

TEST(TuningTableTest, WarnsOfRecordsThatItCannotRead) {
  const TemporaryDirectory directory;
  TuningTable::Options options = {.directory = directory.path()};
  std::string warning;
  options.warn = [&](const std::string& text) { warning += text; };
  ASSERT_TRUE(TuningTable(options, "digest").Put(RecordOf(kLine, 4)).ok());
  EXPECT_EQ(warning, "");
  const auto file =
      std::filesystem::directory_iterator(directory.path() + "/tuning")->path();
  std::ofstream(file, std::ios::app) << "x";
  EXPECT_EQ(TuningTable(options, "digest").size(), 0);
  EXPECT_TRUE(absl::StrContains(
      warning, absl::StrCat("1; the first: ", file.filename().string())))
      << warning;
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
  EXPECT_EQ(table.Put(RecordOf("bf16 TN 1 2 5", 1)).status().code(),
            absl::StatusCode::kResourceExhausted);
  const TuningRecord next = RecordOf("bf16 TN 1 2 4", 3, /*generation=*/1);
  EXPECT_EQ(table.Put(next)->splits, 3);
}

}  // namespace
}  // namespace gemmd::jit
