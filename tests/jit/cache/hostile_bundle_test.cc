// Bundles that were not written by this program, though each of their parts is
// as it would write it.
#include <gtest/gtest.h>
#include <zstd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "jit/base/sha256.h"
#include "jit/cache/signature.h"
#include "jit/cache/tar_header.h"
#include "tests/jit/cache/bundle_in_memory.h"

namespace gemmd::jit {
namespace {

using Members = std::vector<std::pair<std::string, std::string>>;

std::string Member(const std::string& name, const std::string& bytes,
                   char padding = '\0') {
  return EncodeTarHeader({.name = name, .bytes = bytes.size()}) + bytes +
         std::string(TarPadding(bytes.size()), padding);
}

std::string Archive(const Members& members) {
  std::string tar;
  for (const auto& [name, bytes] : members) tar += Member(name, bytes);
  return tar;
}

std::string ManifestOf(const Members& members) {
  std::string manifest = "gemmd bundle 2\n";
  for (const auto& [name, bytes] : members) {
    absl::StrAppend(&manifest, absl::BytesToHexString(Sha256Of(bytes)), "  ",
                    name, "\n");
  }
  return manifest;
}

std::string Signature(const std::string& manifest) {
  return Sign("", Sha256Of(manifest));
}

const std::string kEnd(2 * kTarBlock, '\0');

// What follows the members of a bundle.
std::string Rest(const Members& members, const std::string& end = kEnd) {
  const std::string manifest = ManifestOf(members);
  return Member("manifest", manifest) +
         Member("signature", Signature(manifest)) + end;
}

absl::Status Read(const std::string& tar, bool cut_off = false) {
  std::string bytes(ZSTD_compressBound(tar.size()), '\0');
  bytes.resize(
      ZSTD_compress(bytes.data(), bytes.size(), tar.data(), tar.size(), 1));
  if (cut_off) bytes.resize(bytes.size() - 1);
  return DecodeBundle(bytes).status();
}

std::string Name(char digit) {
  return absl::StrCat("entries/", std::string(64, digit));
}

const Members kMembers = {{Name('a'), "first"}, {Name('b'), "second"}};

TEST(HostileBundleTest, OneThatIsAsItShouldBeIsRead) {
  const absl::Status status = Read(Archive(kMembers) + Rest(kMembers));
  EXPECT_TRUE(status.ok()) << status;
}

// Nothing of a header means anything else to another program.
TEST(HostileBundleTest, HeadersAreAsThisProgramWritesThem) {
  const std::string tar = Archive(kMembers) + Rest(kMembers);
  const std::string name = kMembers[0].first;
  for (size_t at = name.size(); at < kTarBlock; ++at) {
    std::string other = tar;
    other[at] = static_cast<char>(other[at] ^ 1);
    EXPECT_TRUE(absl::IsDataLoss(Read(other))) << at;
  }
}

TEST(HostileBundleTest, MembersAreInOrderAndThereOnce) {
  for (const Members& members :
       {Members{kMembers[1], kMembers[0]}, Members{kMembers[0], kMembers[0]}}) {
    EXPECT_TRUE(absl::IsDataLoss(Read(Archive(members) + Rest(members))));
  }
}

// Names of files that are written are made of them.
TEST(HostileBundleTest, MembersAreCalledByTheirKeys) {
  std::string escaping = "entries/../../" + std::string(58, 'a');
  for (const std::string& name :
       {escaping, Name('A'), Name('a') + "a", "tuning/" + std::string(63, 'a'),
        std::string("entries/manifest")}) {
    const Members members = {{name, "x"}};
    EXPECT_TRUE(absl::IsDataLoss(Read(Archive(members) + Rest(members))))
        << name;
  }
}

TEST(HostileBundleTest, TheManifestIsOfTheMembers) {
  for (const Members& told :
       {Members{}, Members{kMembers[0]},
        Members{kMembers[0], {Name('b'), "third"}},
        Members{kMembers[0], kMembers[1], {Name('c'), "third"}}}) {
    EXPECT_TRUE(absl::IsDataLoss(Read(Archive(kMembers) + Rest(told))));
  }
}

TEST(HostileBundleTest, NothingIsHiddenInPaddingOrBehindTheEnd) {
  const std::string& bytes = kMembers[0].second;
  const Members one = {kMembers[0]};
  EXPECT_TRUE(absl::IsDataLoss(
      Read(Member(Name('a'), bytes, /*padding=*/'x') + Rest(one))));
  for (const std::string& end :
       {std::string(2 * kTarBlock, 'x'), kEnd + "x", kEnd + kEnd}) {
    EXPECT_TRUE(absl::IsDataLoss(Read(Archive(one) + Rest(one, end))));
  }
  EXPECT_TRUE(absl::IsDataLoss(Read(Archive(one) + Rest(one), true)));
}

TEST(HostileBundleTest, TheSignatureIsCalledThat) {
  const std::string manifest = ManifestOf(kMembers);
  EXPECT_TRUE(
      absl::IsDataLoss(Read(Archive(kMembers) + Member("manifest", manifest) +
                            Member("seal", Signature(manifest)) + kEnd)));
}

// However well it is compressed: it would be held whole.
TEST(HostileBundleTest, AMemberHasItsLimit) {
  const Members large = {{Name('a'), std::string((64 << 20) + 1, '\0')}};
  EXPECT_TRUE(absl::IsDataLoss(Read(Archive(large) + Rest(large))));
}

// Writers may say that reading takes gigabytes.
TEST(HostileBundleTest, AWindowHasItsLimit) {
  const std::string tar = Archive(kMembers) + Rest(kMembers);
  for (const int window_log : {23, 24}) {
    ZSTD_CCtx* const context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
    std::string bytes(ZSTD_compressBound(tar.size()), '\0');
    ZSTD_inBuffer in = {tar.data(), tar.size(), 0};
    ZSTD_outBuffer out = {bytes.data(), bytes.size(), 0};
    // Without an end at once, by which the size would be known.
    ZSTD_compressStream2(context, &out, &in, ZSTD_e_flush);
    EXPECT_EQ(ZSTD_compressStream2(context, &out, &in, ZSTD_e_end), 0u);
    ZSTD_freeCCtx(context);
    bytes.resize(out.pos);
    EXPECT_EQ(DecodeBundle(bytes).ok(), window_log == 23);
  }
}

TEST(BundleWriterTest, ASinkThatFailsIsAnError) {
  int writes = 0;
  BundleWriter writer(
      [&](absl::string_view) {
        ++writes;
        return absl::ResourceExhaustedError("full");
      },
      "");
  absl::Status status = writer.Add(Name('a'), "bytes");
  if (status.ok()) status = writer.Finish();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(writes, 1);
}

}  // namespace
}  // namespace gemmd::jit
