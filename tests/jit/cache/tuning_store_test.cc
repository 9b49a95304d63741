#include "jit/cache/tuning_store.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
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

// As long as it lives, the permissions of files bind this thread though it be
// root's.
class PermissionsBind {
 public:
  PermissionsBind() {
    EXPECT_EQ(syscall(SYS_capget, &header_, before_.data()), 0);
    auto less = before_;
    less[0].effective &=
        ~((1U << CAP_DAC_OVERRIDE) | (1U << CAP_DAC_READ_SEARCH));
    EXPECT_EQ(syscall(SYS_capset, &header_, less.data()), 0);
  }
  ~PermissionsBind() {
    EXPECT_EQ(syscall(SYS_capset, &header_, before_.data()), 0);
  }

 private:
  __user_cap_header_struct header_ = {_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> before_ = {};
};

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
  EXPECT_EQ(store.All().readable.size(), 1u);
}

// The parts of k of a generation that others have seen do not come back, as
// with the bundle of an old backup.
TEST(TuningStoreTest, ALowerGenerationReplacesNoHigherOne) {
  const TemporaryDirectory directory;
  const TuningStore store(directory.path());
  const TuningRecord old = RecordOf("bf16 TN 1 2 3");
  TuningRecord next = old;
  ++next.generation;
  next.splits = 5;
  EXPECT_EQ(*store.Put(old), old);
  EXPECT_EQ(*store.Put(next), next);
  EXPECT_EQ(*store.Put(old), next);
  EXPECT_EQ(store.All().readable, std::vector<TuningRecord>{next});
}

TEST(TuningStoreTest, WithinAGenerationThePartsOfKStay) {
  const TemporaryDirectory directory;
  const TuningStore store(directory.path());
  const TuningRecord first = RecordOf("bf16 TN 1 2 3");
  TuningRecord second = first;
  second.splits = 5;
  EXPECT_EQ(*store.Put(first), first);
  EXPECT_EQ(*store.Put(second), first);
  EXPECT_EQ(store.All().readable, std::vector<TuningRecord>{first});
}

// There may be a record, whose parts of k others have seen.
TEST(TuningStoreTest, WhatCannotBeReadIsNotReplaced) {
  const TemporaryDirectory directory;
  const TuningStore store(directory.path());
  const TuningRecord record = RecordOf("bf16 TN 1 2 3");
  ASSERT_TRUE(store.Put(record).ok());
  const fs::path file =
      fs::directory_iterator(directory.path() + "/tuning")->path();
  fs::permissions(file, fs::perms::none);
  {
    const PermissionsBind root_too;
    const absl::Status status = store.Put(record).status();
    EXPECT_TRUE(absl::IsInternal(status)) << status;
  }
  fs::permissions(file, fs::perms::owner_read);
  EXPECT_EQ(store.All().readable, std::vector<TuningRecord>{record});
}

// Their products have other last bits from here on, so somebody has to know.
TEST(TuningStoreTest, SaysWhatItCannotRead) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(
      TuningStore(directory.path()).Put(RecordOf("bf16 TN 1 2 3")).ok());
  const fs::path file =
      fs::directory_iterator(directory.path() + "/tuning")->path();
  std::ofstream(file, std::ios::app) << "x";
  const std::string name = file.filename().string() + ": ";
  for (const bool read_only : {true, false}) {
    const TuningRecords all = TuningStore(directory.path(), read_only).All();
    EXPECT_TRUE(all.readable.empty());
    ASSERT_EQ(all.faults.size(), 1u);
    EXPECT_TRUE(absl::StartsWith(all.faults[0], name)) << all.faults[0];
  }
  EXPECT_TRUE(TuningStore(directory.path()).All().faults.empty());
  fs::permissions(directory.path() + "/tuning", fs::perms::all);
  EXPECT_EQ(TuningStore(directory.path()).All().faults.size(), 1u);
}

TEST(TuningStoreTest, ARecordUnderAnotherKeyIsDamaged) {
  const TemporaryDirectory directory;
  const TuningStore store(directory.path());
  const TuningRecord record = RecordOf("bf16 TN 1 2 3");
  ASSERT_TRUE(store.Put(record).ok());
  fs::rename(fs::directory_iterator(directory.path() + "/tuning")->path(),
             directory.path() + "/tuning/" +
                 TuningKey(record.problem_class, "H200", "digest"));
  EXPECT_TRUE(absl::IsDataLoss(
      store.Find(Parse("bf16 TN 1 2 3"), "H200", "digest").status()));
}

TEST(TuningStoreTest, ALayerIsOnlyRead) {
  const TemporaryDirectory directory;
  const TuningRecord record = RecordOf("bf16 TN 1 2 3");
  ASSERT_TRUE(TuningStore(directory.path()).Put(record).ok());
  TuningRecord next = record;
  ++next.generation;
  const TuningStore layer(directory.path(), /*read_only=*/true);
  EXPECT_TRUE(absl::IsPermissionDenied(layer.Put(next).status()));
  EXPECT_EQ(layer.All().readable, std::vector<TuningRecord>{record});
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
  ASSERT_EQ(store.All().readable.size(), 1u);
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
  EXPECT_TRUE(store.All().readable.empty());
  const absl::Status status =
      store.Find(Parse("bf16 TN 1 2 3"), "H100", "digest").status();
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_EQ(ReadFile(file, 1024).value_or("gone"), other);
  // Whoever tunes here has another record: this version has none.
  const TuningRecord record = RecordOf("bf16 TN 1 2 3");
  EXPECT_EQ(store.Put(record).value_or(TuningRecord()), record);
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
  EXPECT_EQ(store.All().readable.size(), 4u);
  EXPECT_TRUE(kernels.Load(FakeKernel("source").key).ok());
  // Nor do they make a store evict kernels.
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(kernels.Store(FakeKernel(std::to_string(i))).ok());
  }
  EXPECT_EQ(kernels.Keys().size(), 21u);
}

}  // namespace
}  // namespace gemmd::jit
