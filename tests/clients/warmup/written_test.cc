// What a cache's limit takes away of what is written to it.
#include "clients/warmup/written.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/cli/quantity.h"
#include "jit/cache/disk_store.h"
#include "jit/cache/tuning_store.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::warmup {
namespace {

constexpr int kKernels = 8;
constexpr char kWouldBe[] = " would have to be ";

class WrittenTest : public testing::Test {
 protected:
  // All kernels, and so many records, into a directory of such a limit.
  absl::Status Write(int64_t limit_bytes, int records) {
    jit::DiskStore store({.directory = path(), .limit_bytes = limit_bytes});
    Written written(path());
    for (int i = 0; i < kKernels; ++i) {
      const jit::CompiledKernel kernel = jit::FakeKernel(absl::StrCat(i));
      EXPECT_TRUE(store.Store(kernel).ok());
      written.Add(kernel);
    }
    for (int i = 0; i < records; ++i) {
      const jit::TuningRecord record = {
          .problem_class = absl::StrCat("bf16 TN 64 64 ", i + 1),
          .device = "H100",
          .template_digest = "digest",
          .kernel = "gemm_x",
          .provenance = "test"};
      EXPECT_TRUE(jit::TuningStore(path()).Put(record).ok());
      written.Add(record);
    }
    return written.CheckKept();
  }

  const std::string& path() const { return directory_.path(); }

  // In memory where there is such a place: a disk would flush often.
  const jit::TemporaryDirectory directory_{
      std::filesystem::exists("/dev/shm") ? "/dev/shm" : ""};
};

TEST_F(WrittenTest, AllOfItIsKeptWhereThereIsRoom) {
  const absl::Status status = Write(int64_t{1} << 20, 2);
  EXPECT_TRUE(status.ok()) << status;
}

// Records have an eighth of a limit.
TEST_F(WrittenTest, TheLimitThatIsNamedHoldsAll) {
  for (const int records : {0, 150}) {
    // Of this, three kernels: the others and the ledger have a block each.
    const absl::Status status = Write(4 * 4096, records);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), " of 8 kernels "))
        << status;
    EXPECT_EQ(absl::StrContains(status.message(), " of 150 tuning records "),
              records > 0)
        << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "its limit is 16KiB "));
    EXPECT_TRUE(absl::EndsWith(
        status.message(),
        " (--limit-bytes here, and --cache-limit-bytes of its daemon)"))
        << status;
    const std::string text(status.message());
    const size_t at = text.find(kWouldBe);
    ASSERT_NE(at, text.npos) << text;
    const std::string limit = text.substr(at + sizeof(kWouldBe) - 1);
    const auto bytes = cli::ParseBytes(limit.substr(0, limit.find(' ')));
    ASSERT_TRUE(bytes.ok()) << text;
    const absl::Status again = Write(*bytes, records);
    EXPECT_TRUE(again.ok()) << again;
  }
}

TEST_F(WrittenTest, WhatOthersRemoveIsNotTheLimits) {
  Written written(path());
  jit::DiskStore store({.directory = path(), .limit_bytes = 16 << 20});
  const jit::CompiledKernel kernel = jit::FakeKernel("source");
  ASSERT_TRUE(store.Store(kernel).ok());
  written.Add(kernel);
  ASSERT_TRUE(store.Remove(kernel.key).ok());
  EXPECT_EQ(written.CheckKept().message(),
            absl::StrCat("1 of 1 kernels are not in ", path(), " any more"));
}

TEST_F(WrittenTest, RecordsAloneAreMissedToo) {
  Written written(path());
  written.Add(jit::TuningRecord{.problem_class = "bf16 TN 64 64 64",
                                .device = "H100",
                                .template_digest = "digest"});
  EXPECT_EQ(
      written.CheckKept().message(),
      absl::StrCat("1 of 1 tuning records are not in ", path(), " any more"));
}

}  // namespace
}  // namespace gemmd::warmup
