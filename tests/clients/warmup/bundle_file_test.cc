// Bundles that are not files, or not what they were.
#include "clients/warmup/bundle_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <seccomp.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "jit/cache/entry.h"
#include "tests/jit/cache/bundle_in_memory.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::warmup {
namespace {

std::string Bundle(const std::vector<std::string>& sources,
                   const std::string& key = "") {
  jit::BundleMembers members;
  for (const std::string& source : sources) {
    const jit::CompiledKernel kernel = jit::FakeKernel(source);
    members[MemberName(kernel)] = jit::EncodeEntry(kernel);
  }
  return jit::EncodeBundle(members, key);
}

// Of this thread, from now on, as on NFS.
void RefuseFilesWithoutNames() {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  ASSERT_EQ(
      seccomp_rule_add(
          filter, SCMP_ACT_ERRNO(EOPNOTSUPP), SCMP_SYS(openat), 1,
          SCMP_A2(SCMP_CMP_MASKED_EQ, static_cast<scmp_datum_t>(O_TMPFILE),
                  static_cast<scmp_datum_t>(O_TMPFILE))),
      0);
  ASSERT_EQ(seccomp_load(filter), 0);
  seccomp_release(filter);
}

class BundleFileTest : public testing::Test {
 protected:
  void Write(const std::string& bytes) {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << bytes;
  }
  absl::StatusOr<BundleFile> Open() {
    return BundleFile::Open(path(), directory_.path() + "/cache");
  }
  MemberTakers Into(std::vector<std::string>& sources) {
    return {.kernel =
                [&sources](const jit::CompiledKernel& kernel) {
                  sources.push_back(kernel.source);
                  return absl::OkStatus();
                },
            .record = [](const auto&) { return absl::OkStatus(); }};
  }
  std::string path() const { return directory_.path() + "/bundle"; }

  const jit::TemporaryDirectory directory_;
};

// Signatures stand at the end: what was stored until there came from anybody.
TEST_F(BundleFileTest, WhatChangesBetweenItsReadingsIsGivenToNobody) {
  Write(Bundle({"a", "b"}, "key"));
  absl::StatusOr<BundleFile> file = Open();
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::string> first, second;
  ASSERT_TRUE(file->Read("key", Into(first)).ok());
  EXPECT_EQ(first.size(), 2u);
  Write(Bundle({"c", "d"}));
  const absl::Status status = file->Read("key", Into(second));
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_TRUE(second.empty());
}

TEST_F(BundleFileTest, AnEmptyBundleThatGrowsIsGivenToNobody) {
  Write(Bundle({}, "key"));
  absl::StatusOr<BundleFile> file = Open();
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::string> sources;
  ASSERT_TRUE(file->Read("key", Into(sources)).ok());
  Write(Bundle({"c"}));
  EXPECT_FALSE(file->Read("key", Into(sources)).ok());
  EXPECT_TRUE(sources.empty());
}

TEST_F(BundleFileTest, WhatIsNotWhatItSaysIsGivenToNobody) {
  const jit::CompiledKernel kernel = jit::FakeKernel("a");
  jit::CompiledKernel other = kernel;
  ++other.registers;  // Its cubin tells.
  const jit::TuningRecord record = {.problem_class = "bf16 TN 64 64 64",
                                    .device = "H100",
                                    .template_digest = "digest"};
  jit::TuningRecord elsewhere = record;
  elsewhere.device = "H200";
  for (const auto& [name, bytes] :
       {std::pair{MemberName(jit::FakeKernel("b")), jit::EncodeEntry(kernel)},
        {MemberName(other), jit::EncodeEntry(other)},
        {MemberName(elsewhere), jit::EncodeTuningRecord(record)}}) {
    Write(jit::EncodeBundle({{name, bytes}}, ""));
    absl::StatusOr<BundleFile> file = Open();
    ASSERT_TRUE(file.ok()) << file.status();
    std::vector<std::string> taken;
    MemberTakers take = Into(taken);
    take.record = [&taken](const jit::TuningRecord& one) {
      taken.push_back(one.device);
      return absl::OkStatus();
    };
    EXPECT_FALSE(file->Read("", take).ok()) << name;
    EXPECT_TRUE(taken.empty()) << name;
  }
}

TEST_F(BundleFileTest, APipeIsReadTwiceAsAnyFile) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  std::thread writer([this] { Write(Bundle({"a", "b"})); });
  absl::StatusOr<BundleFile> file = Open();
  writer.join();
  ASSERT_TRUE(file.ok()) << file.status();
  for (int i = 0; i < 2; ++i) {
    std::vector<std::string> sources;
    const absl::Status status = file->Read("", Into(sources));
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(sources.size(), 2u);
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path() + "/cache"));
}

TEST_F(BundleFileTest, APipeIsReadWhereEveryFileHasAName) {
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  std::thread writer([this] { Write(Bundle({"a"})); });
  std::vector<std::string> sources;
  std::thread reader([&] {
    RefuseFilesWithoutNames();
    absl::StatusOr<BundleFile> file = Open();
    ASSERT_TRUE(file.ok()) << file.status();
    const absl::Status status = file->Read("", Into(sources));
    EXPECT_TRUE(status.ok()) << status;
  });
  writer.join();
  reader.join();
  EXPECT_EQ(sources.size(), 1u);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path() + "/cache"));
}

TEST_F(BundleFileTest, WhatIsNotThereIsNamed) {
  const absl::Status status = Open().status();
  EXPECT_EQ(status.message(),
            "cannot read " + path() + ": No such file or directory");
}

}  // namespace
}  // namespace gemmd::warmup
