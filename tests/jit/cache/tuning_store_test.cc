#include "jit/cache/tuning_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "jit/base/file.h"
#include "jit/base/frame.h"
#include "jit/cache/disk_store.h"
#include "jit/problem/problem_line.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

namespace fs = std::filesystem;

Problem Parse(const std::string& line) { return *ParseProblemLine(line); }

TuningRecord RecordOf(const std::string& line) {
  return {.problem_class = ProblemClass(Parse(line)),
          .device = "H100",
          .template_digest = "digest",
          .kernel = "gemm_x",
          .exchanged = true,
          .splits = 3,
          .raster_group = 8,
          .nanoseconds = 1359000,
          .predicted_nanoseconds = 1400000,
          .generation = 2,
          .provenance = "test"};
}

TEST(ProblemClassTest, IsTheProblemWithoutTheValuesOfItsScalars) {
  const auto class_of = [](const std::string& line) {
    return ProblemClass(Parse(line));
  };
  EXPECT_EQ(class_of("bf16 TN 4097 1 8"), "bf16 TN 4097 1 8");
  EXPECT_EQ(class_of("f16 NT 64 64 64 d=f32 alpha=3 beta=-2 order=row"),
            "f16 NT 64 64 64 d=f32 alpha=2 beta=1 order=row");
  EXPECT_EQ(class_of("bf16 TN 1 2 3 alpha=5"),
            class_of("bf16 TN 1 2 3 alpha=-7"));
  // Kernels of an alpha of 1 do not multiply by it.
  EXPECT_NE(class_of("bf16 TN 1 2 3"), class_of("bf16 TN 1 2 3 alpha=2"));
  EXPECT_EQ(class_of("bf16 TN 1 2 3 batch=4 broadcast=b"),
            class_of("bf16 TN 1 2 3 batch=4"));
  EXPECT_EQ(class_of("bf16 TN 1 2 3 order=row batch=4 broadcast=b"),
            class_of("bf16 TN 4 2 3 order=row"));
  EXPECT_EQ(class_of("bf16 TN 1 2 0 alpha=5"), "bf16 TN 1 2 0 alpha=0");
}

TEST(TuningRecordTest, DetectsEveryTruncationAndEveryFlippedBit) {
  const std::string bytes = EncodeTuningRecord(RecordOf("bf16 TN 1 2 3"));
  ASSERT_TRUE(DecodeTuningRecord(bytes).ok());
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(DecodeTuningRecord(bytes.substr(0, i)).ok());
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    EXPECT_FALSE(DecodeTuningRecord(damaged).ok()) << i;
  }
}

TEST(TuningStoreTest, FindsByClassDeviceAndTemplates) {
  const TemporaryDirectory directory;
  const TuningStore store(directory.path());
  const Problem problem = Parse("bf16 TN 4096 7168 2304");
  EXPECT_TRUE(absl::IsNotFound(store.Find(problem, "H100", "digest").status()));
  TuningRecord record = RecordOf("bf16 TN 4096 7168 2304");
  ASSERT_TRUE(store.Put(record).ok());
  EXPECT_EQ(*store.Find(problem, "H100", "digest"), record);
  EXPECT_FALSE(
      store.Find(Parse("bf16 TN 4096 7168 2305"), "H100", "digest").ok());
  EXPECT_FALSE(store.Find(problem, "H200", "digest").ok());
  EXPECT_FALSE(store.Find(problem, "H100", "other").ok());
  EXPECT_FALSE(
      store.Find(Parse("bf16 NN 4096 7168 2304"), "H100", "digest").ok());
  record.nanoseconds = 5;
  ASSERT_TRUE(store.Put(record).ok());
  EXPECT_EQ(store.Find(problem, "H100", "digest")->nanoseconds, 5);
  EXPECT_EQ(store.All().size(), 1u);
}

TEST(TuningStoreTest, RemovesWhatIsDamagedOrOfOtherTemplates) {
  const TemporaryDirectory directory;
  const TuningStore store(directory.path());
  const TuningRecord record = RecordOf("bf16 TN 1 2 3");
  TuningRecord other = record;
  other.template_digest = "other";
  ASSERT_TRUE(store.Put(record).ok());
  ASSERT_TRUE(store.Put(other).ok());
  EXPECT_EQ(store.RemoveOthers("digest"), 1);
  ASSERT_EQ(store.All().size(), 1u);
  const fs::path file =
      fs::directory_iterator(directory.path() + "/tuning")->path();
  std::ofstream(file, std::ios::trunc) << "garbage";
  EXPECT_TRUE(absl::IsDataLoss(
      store.Find(Parse("bf16 TN 1 2 3"), "H100", "digest").status()));
  EXPECT_FALSE(fs::exists(file));
}

// Of a version that was there before a rollback, or that runs beside this one:
// with its records the parts of k would go.
TEST(TuningStoreTest, LeavesRecordsOfAnotherFormatAlone) {
  const TemporaryDirectory directory;
  const TuningStore store(directory.path());
  ASSERT_TRUE(store.Put(RecordOf("bf16 TN 1 2 3")).ok());
  const fs::path file =
      fs::directory_iterator(directory.path() + "/tuning")->path();
  const std::string other =
      Frame({.magic = "GEMMDTUN", .format = 99}, "a body of another kind");
  std::ofstream(file, std::ios::trunc) << other;
  EXPECT_TRUE(store.All().empty());
  const absl::Status status =
      store.Find(Parse("bf16 TN 1 2 3"), "H100", "digest").status();
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_EQ(ReadFile(file, 1024).value_or("gone"), other);
}

// One limit for all: records make room like anything else, and leave room.
TEST(TuningStoreTest, RecordsKeepToTheLimitOfTheDirectory) {
  const TemporaryDirectory directory;
  constexpr int64_t kLimit = 32 * 4096;
  DiskStore kernels({.directory = directory.path(), .limit_bytes = kLimit});
  ASSERT_TRUE(kernels.Store(FakeKernel("source")).ok());
  const TuningStore store(directory.path());
  for (int i = 1; i <= 64; ++i) {
    TuningRecord record = RecordOf("bf16 TN 1 2 3");
    record.device = "device " + std::to_string(i);
    ASSERT_TRUE(store.Put(record).ok());
    EXPECT_LE(kernels.BytesUsed(), kLimit);
  }
  // An eighth of the limit.
  EXPECT_EQ(store.All().size(), 4u);
  EXPECT_TRUE(kernels.Load(FakeKernel("source").key).ok());
  // Nor do they make a store evict kernels.
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(kernels.Store(FakeKernel(std::to_string(i))).ok());
  }
  EXPECT_EQ(kernels.Keys().size(), 21u);
}

}  // namespace
}  // namespace gemmd::jit
