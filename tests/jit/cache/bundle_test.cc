#include "jit/cache/bundle.h"

#include <gtest/gtest.h>
#include <zstd.h>

#include <cstdio>
#include <fstream>
#include <map>

#include "jit/base/status.h"
#include "jit/cache/tar_header.h"
#include "tests/jit/cache/bundle_in_memory.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

std::string Name(const std::string& folder, char digit) {
  return folder + "/" + std::string(64, digit);
}

const BundleMembers kMembers = {{Name("entries", 'a'), "first"},
                                {Name("entries", 'b'), std::string(1000, 'x')},
                                {Name("tuning", 'a'), ""}};

TEST(BundleTest, ReturnsItsMembers) {
  const auto members = DecodeBundle(EncodeBundle(kMembers));
  ASSERT_TRUE(members.ok()) << members.status();
  EXPECT_EQ(*members, kMembers);
  EXPECT_TRUE(DecodeBundle(EncodeBundle({}))->empty());
}

TEST(BundleTest, TheSameMembersGiveTheSameBytes) {
  EXPECT_EQ(EncodeBundle(kMembers), EncodeBundle(kMembers));
  EXPECT_EQ(EncodeBundle(kMembers, "key"), EncodeBundle(kMembers, "key"));
}

TEST(BundleTest, IsCompressed) {
  EXPECT_LT(
      EncodeBundle({{Name("entries", 'a'), std::string(1000000, 'x')}}).size(),
      10000u);
}

TEST(BundleTest, DetectsEveryTruncationAndEveryFlippedBit) {
  const std::string bytes = EncodeBundle(kMembers);
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(DecodeBundle(bytes.substr(0, i)).ok()) << i;
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      // A bit of the compression that means nothing changes nothing.
      const auto members = DecodeBundle(damaged);
      EXPECT_TRUE(!members.ok() || *members == kMembers) << i;
    }
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeBundle(bytes + "x").status()));
}

TEST(BundleTest, ASignatureIsThatOfItsKeyAndMembers) {
  const std::string is_signed = EncodeBundle(kMembers, "key");
  EXPECT_TRUE(DecodeBundle(is_signed, "key").ok());
  EXPECT_TRUE(DecodeBundle(is_signed).ok());
  EXPECT_TRUE(
      absl::IsPermissionDenied(DecodeBundle(is_signed, "other").status()));
  EXPECT_TRUE(absl::IsPermissionDenied(
      DecodeBundle(EncodeBundle(kMembers), "key").status()));
}

// Names become paths.
TEST(BundleTest, RefusesMembersThatAreNoneOfACache) {
  for (const char* name :
       {"../../etc/cron.d/x", "/etc/passwd", "entries/../../x", "lock",
        "entries/\033[2J", "entries/", "quarantine/x"}) {
    std::string tar = EncodeTarHeader({.name = name, .bytes = 0});
    tar.resize(tar.size() + 4 * kTarBlock);
    std::string bytes(ZSTD_compressBound(tar.size()), '\0');
    bytes.resize(
        ZSTD_compress(bytes.data(), bytes.size(), tar.data(), tar.size(), 1));
    const absl::Status status = DecodeBundle(bytes).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << name;
    EXPECT_EQ(status.message().find('\033'), absl::string_view::npos);
  }
}

std::string Compressed(const std::string& tar) {
  std::string bytes(ZSTD_compressBound(tar.size()), '\0');
  bytes.resize(
      ZSTD_compress(bytes.data(), bytes.size(), tar.data(), tar.size(), 1));
  return bytes;
}

// `header`, changed, with the sum that is then right.
std::string Summed(std::string header) {
  constexpr size_t kSumAt = 148;
  header.replace(kSumAt, 8, std::string(8, ' '));
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  std::string text(8, '\0');
  std::snprintf(text.data(), 7, "%06o", sum);
  return header.replace(kSumAt, 8, text.substr(0, 7) + " ");
}

// Links, devices, sparse files, and whatever else archives have in them.
TEST(BundleTest, RefusesEveryKindOfMemberButPlainFiles) {
  constexpr size_t kSizeAt = 124, kTypeAt = 156, kLinkAt = 157;
  const std::string plain =
      EncodeTarHeader({.name = Name("entries", 'a'), .bytes = 0});
  for (const char type : absl::string_view("1234567SxgLKVMDNXA\0", 19)) {
    std::string header = plain;
    header[kTypeAt] = type;
    header.replace(kLinkAt, 11, "/etc/passwd");
    const absl::Status status =
        DecodeBundle(Compressed(Summed(header) + std::string(8192, '\0')))
            .status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << type << ": " << status;
  }
  // Sizes in base 256, negative, or octal with blanks.
  for (const std::string& size :
       {std::string("\x80\0\0\0\0\0\0\0\0\0\0\x01", 12),
        std::string(12, '\xff'), std::string("         10 ")}) {
    std::string header = plain;
    header.replace(kSizeAt, 12, size);
    EXPECT_TRUE(absl::IsDataLoss(
        DecodeBundle(Compressed(Summed(header) + std::string(8192, '\0')))
            .status()));
  }
  // Behind a NUL, where this program does not look and another might.
  std::string header = plain;
  header.replace(Name("entries", 'a').size() + 1, 16, "/../../etc/crond");
  EXPECT_TRUE(absl::IsDataLoss(
      DecodeBundle(Compressed(Summed(header) + std::string(8192, '\0')))
          .status()));
}

// A size alone reserves nothing.
TEST(BundleTest, ABombIsRefused) {
  std::string tar =
      EncodeTarHeader({.name = Name("entries", 'a'), .bytes = 8589934591});
  std::string bytes(ZSTD_compressBound(tar.size()), '\0');
  bytes.resize(
      ZSTD_compress(bytes.data(), bytes.size(), tar.data(), tar.size(), 1));
  EXPECT_TRUE(absl::IsDataLoss(DecodeBundle(bytes).status()));
}

TEST(BundleTest, IsAnArchiveThatTarUnpacks) {
  const TemporaryDirectory directory;
  const std::string bytes = EncodeBundle(kMembers);
  std::string tar(1 << 20, '\0');
  ZSTD_DCtx* const context = ZSTD_createDCtx();
  ZSTD_inBuffer in = {bytes.data(), bytes.size(), 0};
  ZSTD_outBuffer out = {tar.data(), tar.size(), 0};
  EXPECT_EQ(ZSTD_decompressStream(context, &out, &in), 0u);
  ZSTD_freeDCtx(context);
  const std::string file = directory.path() + "/bundle.tar";
  std::ofstream(file, std::ios::binary) << tar.substr(0, out.pos);
  const std::string command =
      "tar -xf " + file + " -C " + directory.path() + " 2>&1";
  std::FILE* const process = popen(command.c_str(), "r");
  char complaint[256] = "";
  EXPECT_EQ(std::fread(complaint, 1, 255, process), 0u) << complaint;
  EXPECT_EQ(pclose(process), 0);
  std::ifstream member(directory.path() + "/" + Name("entries", 'a'));
  std::string content;
  std::getline(member, content);
  EXPECT_EQ(content, "first");
}

}  // namespace
}  // namespace gemmd::jit
