#include "jit/cache/bundle.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <random>

#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

const BundleMembers kMembers = {
    {"entries/a", "first"}, {"entries/b", std::string(1000, 'x')}, {"z", ""}};

TEST(BundleTest, ReturnsItsMembers) {
  const auto members = DecodeBundle(EncodeBundle(kMembers));
  ASSERT_TRUE(members.ok()) << members.status();
  EXPECT_EQ(*members, kMembers);
  EXPECT_TRUE(DecodeBundle(EncodeBundle({}))->empty());
}

TEST(BundleTest, TheSameMembersGiveTheSameBytes) {
  EXPECT_EQ(EncodeBundle(kMembers), EncodeBundle(kMembers));
}

TEST(BundleTest, DetectsEveryTruncationAndEveryFlippedBit) {
  const std::string bytes = EncodeBundle(kMembers);
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeBundle(bytes.substr(0, i)).status()));
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    EXPECT_TRUE(absl::IsDataLoss(DecodeBundle(damaged).status())) << i;
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeBundle(bytes + "x").status()));
}

TEST(BundleTest, IsAnArchiveThatTarUnpacks) {
  const TemporaryDirectory directory;
  const std::string file = directory.path() + "/bundle.tar";
  std::ofstream(file, std::ios::binary) << EncodeBundle(kMembers);
  const std::string command =
      "tar -xf " + file + " -C " + directory.path() + " 2>&1";
  std::FILE* const tar = popen(command.c_str(), "r");
  char complaint[256] = "";
  EXPECT_EQ(std::fread(complaint, 1, 255, tar), 0u) << complaint;
  EXPECT_EQ(pclose(tar), 0);
  std::ifstream member(directory.path() + "/entries/a");
  std::string content;
  std::getline(member, content);
  EXPECT_EQ(content, "first");
}

}  // namespace
}  // namespace gemmd::jit
