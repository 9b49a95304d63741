// gemm-warmup and the tuning records of a cache.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "jit/cache/disk_store.h"
#include "jit/cache/tuning_store.h"
#include "tests/clients/warmup/run_warmup.h"
#include "tests/clients/warmup/warmup_case.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::warmup {
namespace {

namespace fs = std::filesystem;

jit::TuningRecord Record(int splits, int generation) {
  return {.problem_class = "bf16 TN 64 64 64",
          .device = "H100",
          .template_digest = "digest",
          .kernel = "gemm_x",
          .splits = splits,
          .generation = generation};
}

class RecordsTest : public WarmupTest {
 protected:
  // A cache of one kernel and one record.
  void Make(const std::string& name, const jit::TuningRecord& record) {
    jit::DiskStore store({.directory = Path(name)});
    ASSERT_TRUE(store.Store(jit::FakeKernel("source")).ok());
    ASSERT_TRUE(jit::TuningStore(Path(name)).Put(record).ok());
  }
  Outcome Diff() {
    return Warmup(absl::StrCat("diff ", Path("cache"), " ", Path("other")));
  }
};

// The parts of k have changed once and for all.
TEST_F(RecordsTest, AnOldBundleBringsNoOldPartsOfKBack) {
  Make("cache", Record(8, 0));
  ASSERT_EQ(OnCache("export", Path("bundle")).code, 0);
  ASSERT_TRUE(jit::TuningStore(Path("cache")).Put(Record(4, 1)).ok());
  const Outcome import = OnCache("import", Path("bundle"));
  EXPECT_EQ(import.code, 0) << import.output;
  EXPECT_TRUE(absl::StrContains(import.output,
                                "1 tuning records: 0 imported, 1 that give "
                                "way to what is there\n"))
      << import.output;
  EXPECT_EQ(jit::TuningStore(Path("cache")).All().readable[0].splits, 4);
}

TEST_F(RecordsTest, DiffComparesWhatTheyChoose) {
  jit::TuningRecord slower = Record(8, 0);
  slower.nanoseconds = 5000;
  Make("cache", Record(8, 0));
  Make("other", slower);
  Outcome diff = Diff();
  EXPECT_EQ(diff.code, 0) << diff.output;

  ASSERT_TRUE(jit::TuningStore(Path("other")).Put(Record(4, 1)).ok());
  diff = Diff();
  EXPECT_EQ(diff.code, 1);
  EXPECT_TRUE(absl::StartsWith(diff.output, "! ")) << diff.output;
  EXPECT_TRUE(absl::StrContains(
      diff.output,
      " tuning of bf16 TN 64 64 64 on H100: gemm_x, 8 parts of k, raster group "
      "1, generation 0; gemm_x, 4 parts of k, raster group 1, generation 1\n"))
      << diff.output;

  fs::remove_all(Path("cache/tuning"));
  diff = Diff();
  EXPECT_EQ(diff.code, 1);
  EXPECT_TRUE(absl::StartsWith(diff.output, "+ ")) << diff.output;
}

TEST_F(RecordsTest, ADamagedOneCountsAndIsNamed) {
  Make("cache", Record(8, 0));
  Make("other", Record(8, 0));
  const fs::path file = fs::directory_iterator(Path("cache/tuning"))->path();
  std::ofstream(file, std::ios::app) << "x";
  const std::string name = "tuning record " + file.filename().string() + ": ";
  for (const Outcome& outcome :
       {OnCache("stats"), OnCache("export", Path("bundle")), Diff()}) {
    EXPECT_EQ(outcome.code, 1) << outcome.output;
    EXPECT_TRUE(absl::StrContains(outcome.output, name)) << outcome.output;
  }
  EXPECT_TRUE(absl::StrContains(OnCache("stats").output, "damaged        1\n"));
}

}  // namespace
}  // namespace gemmd::warmup
