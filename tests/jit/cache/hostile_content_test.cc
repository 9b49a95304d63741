// A thousand mutated entries, bundles, Redis replies and worker replies: each
// is refused or is what it was, nothing aborts, and nothing outside the cache
// is touched.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>

#include "absl/strings/str_cat.h"
#include "jit/base/sha256.h"
#include "jit/cache/disk_store.h"
#include "jit/cache/entry.h"
#include "jit/cache/redis_tier.h"
#include "jit/cache/signature.h"
#include "tests/fuzz/cache_parsers.h"
#include "tests/fuzz/mutate.h"
#include "tests/jit/cache/bundle_in_memory.h"
#include "tests/jit/cache/redis_server.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

namespace fs = std::filesystem;

constexpr int kRounds = 1000;

const CompiledKernel kKernel = FakeKernel("source");

// Mutated inside of a frame whose length and checksum are right, half of the
// time: else the checksum alone would refuse it.
std::string MutatedEntry(std::mt19937& random) {
  const std::string bytes = EncodeEntry(kKernel);
  if (random() % 2 == 0) return fuzz::Mutate(bytes, random);
  const std::string body =
      fuzz::Mutate(bytes.substr(24, bytes.size() - 24 - kSha256Bytes), random);
  std::string framed = bytes.substr(0, 16);
  AppendU64(framed, body.size());
  framed += body;
  return framed + Sha256Of(framed);
}

bool IsOurs(const CompiledKernel& kernel) {
  return kernel.key == kKernel.key && kernel.source == kKernel.source &&
         kernel.options == kKernel.options;
}

TEST(HostileContentTest, EntriesInADirectory) {
  const TemporaryDirectory outer;
  const std::string directory = outer.path() + "/cache";
  std::mt19937 random(11);
  DiskStore store({.directory = directory});
  ASSERT_TRUE(store.Store(kKernel).ok());
  for (int round = 0; round < kRounds; ++round) {
    std::ofstream(directory + "/entries/" + kKernel.key, std::ios::trunc)
        << MutatedEntry(random);
    store.Summary(kKernel.key).status().IgnoreError();
    const absl::StatusOr<CompiledKernel> kernel = store.Load(kKernel.key);
    EXPECT_TRUE(kernel.ok() ? IsOurs(*kernel)
                            : absl::IsDataLoss(kernel.status()))
        << round << ": " << kernel.status();
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(outer.path()), {}), 1);
}

TEST(HostileContentTest, Bundles) {
  std::mt19937 random(12);
  const std::string name = "entries/" + kKernel.key;
  const std::string good = EncodeBundle({{name, EncodeEntry(kKernel)}}, "key");
  for (int round = 0; round < kRounds; ++round) {
    const auto members = DecodeBundle(fuzz::Mutate(good, random), "key");
    if (!members.ok()) continue;
    // What is signed is what was signed.
    ASSERT_EQ(members->size(), 1u);
    EXPECT_EQ(members->at(name), EncodeEntry(kKernel));
  }
  // Wrapped up properly by whoever has no key.
  for (int round = 0; round < 100; ++round) {
    const auto members =
        DecodeBundle(EncodeBundle({{name, MutatedEntry(random)}}));
    ASSERT_TRUE(members.ok()) << members.status();
    const auto kernel = DecodeEntry(members->at(name));
    EXPECT_TRUE(!kernel.ok() || IsOurs(*kernel));
  }
}

TEST(HostileContentTest, RepliesOfARedisServer) {
  std::mt19937 random(13);
  const std::string value = Sign("key", EncodeEntry(kKernel));
  const std::string good =
      absl::StrCat("$", value.size(), "\r\n", value, "\r\n");
  const FakeServer server([&](int socket) {
    char request[4096];
    if (recv(socket, request, sizeof(request), 0) <= 0) return;
    const std::string reply = fuzz::Mutate(good, random);
    send(socket, reply.data(), reply.size(), MSG_NOSIGNAL);
  });
  const auto tier = CreateRedisTier({.server = {.address = server.address()},
                                     .signing_key = "key",
                                     .load_timeout = absl::Seconds(5),
                                     .failures_until_pause = kRounds * 2});
  ASSERT_TRUE(tier.ok()) << tier.status();
  for (int round = 0; round < kRounds; ++round) {
    const auto kernel = (*tier)->Load(kKernel.key);
    EXPECT_TRUE(!kernel.ok() || IsOurs(*kernel)) << round;
  }
}

TEST(HostileContentTest, RepliesOfAWorker) {
  std::mt19937 random(14);
  const std::string good[] = {
      EncodeReply(CompileOutput{.cubin = FakeCubin(), .log = FakeLog()}),
      EncodeReply(absl::InternalError("nonsense"))};
  for (int round = 0; round < kRounds; ++round) {
    absl::StatusOr<CompileOutput> output = absl::UnknownError("");
    const absl::Status status =
        DecodeReply(fuzz::Mutate(good[round % 2], random), output);
    EXPECT_TRUE(status.ok() || absl::IsDataLoss(status)) << status;
  }
}

TEST(HostileContentTest, EveryParserTakesAnything) {
  std::mt19937 random(15);
  const std::string seeds[] = {
      EncodeEntry(kKernel),
      EncodeBundle({{"entries/" + kKernel.key, "bytes"}}),
      EncodeReply(absl::InternalError("nonsense")),
      EncodeRequest({.source = "source", .options = {"--std=c++20"}}),
      Sign("key", "bytes"),
      FakeCubin(),
      FakeLog(),
      "rediss://user:p%40ss@[::1]:6379/",
      "#\\\n/* */ include \"file\"\n%:define X\n",
      ""};
  for (const fuzz::Parser& parser : fuzz::CacheParsers()) {
    SCOPED_TRACE(parser.name);
    for (int round = 0; round < kRounds; ++round) {
      parser.parse(fuzz::Mutate(seeds[random() % std::size(seeds)], random));
    }
  }
}

}  // namespace
}  // namespace gemmd::jit
