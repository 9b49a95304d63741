#include "jit/cache/entry.h"

#include <gtest/gtest.h>

#include <random>

#include "jit/base/record.h"
#include "jit/base/sha256.h"
#include "jit/cache/cache_key.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

TEST(EntryTest, ReturnsWhatWasWritten) {
  const CompiledKernel kernel = FakeKernel("source \0 with zero");
  const absl::StatusOr<CompiledKernel> read = DecodeEntry(EncodeEntry(kernel));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->key, kernel.key);
  EXPECT_EQ(read->name, kernel.name);
  EXPECT_EQ(read->source, kernel.source);
  EXPECT_EQ(read->options, kernel.options);
  EXPECT_EQ(read->compiler, kernel.compiler);
  EXPECT_EQ(read->log, kernel.log);
  EXPECT_EQ(read->cubin, kernel.cubin);
  EXPECT_EQ(read->registers, kernel.registers);
  EXPECT_EQ(read->static_shared_memory_bytes,
            kernel.static_shared_memory_bytes);
  EXPECT_EQ(read->spill_bytes, kernel.spill_bytes);
  EXPECT_EQ(read->compile_ms, kernel.compile_ms);
  EXPECT_EQ(read->provenance, kernel.provenance);
}

TEST(EntryTest, DetectsEveryTruncation) {
  const std::string bytes = EncodeEntry(FakeKernel("source"));
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeEntry(bytes.substr(0, length)).status()))
        << length;
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeEntry(bytes + "x").status()));
}

TEST(EntryTest, DetectsEveryFlippedBit) {
  const std::string bytes = EncodeEntry(FakeKernel("source"));
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    EXPECT_TRUE(absl::IsDataLoss(DecodeEntry(damaged).status())) << i;
  }
}

TEST(EntryTest, RefusesAnEntryUnderAKeyThatIsNotItsOwn) {
  CompiledKernel kernel = FakeKernel("source");
  kernel.key = FakeKernel("another source").key;
  EXPECT_TRUE(absl::IsDataLoss(DecodeEntry(EncodeEntry(kernel)).status()));
}

TEST(EntryTest, RefusesCountsThatAreNegative) {
  for (int i = 0; i < 4; ++i) {
    CompiledKernel kernel = FakeKernel("source");
    (i == 0   ? kernel.registers
     : i == 1 ? kernel.spill_bytes
              : kernel.static_shared_memory_bytes) = i == 3 ? 0 : -1;
    EXPECT_EQ(DecodeEntry(EncodeEntry(kernel)).status().code(),
              i == 3 ? absl::StatusCode::kOk : absl::StatusCode::kDataLoss);
  }
}

// Terminals obey control characters, of ASCII and of Unicode.
TEST(EntryTest, RefusesTextsThatAreNotFitToBePrinted) {
  const auto refused = [](CompiledKernel kernel) {
    kernel.key = CacheKey(kernel.source, kernel.options, kernel.compiler);
    return absl::IsDataLoss(DecodeEntry(EncodeEntry(kernel)).status());
  };
  const CompiledKernel good = FakeKernel("line\n\tline \u00e9\n");
  EXPECT_FALSE(refused(good));
  for (const char* name : {"", "\033[2J", "two words", "a\nb", "../../name",
                           "\u009b2J", "semi;colon"}) {
    CompiledKernel kernel = good;
    kernel.name = name;
    EXPECT_TRUE(refused(kernel)) << name;
  }
  for (const char* text : {"\033[2J", "\r", "\u009b2J", "\a", "\x7f"}) {
    for (std::string CompiledKernel::*field :
         {&CompiledKernel::source, &CompiledKernel::compiler,
          &CompiledKernel::log, &CompiledKernel::provenance}) {
      CompiledKernel kernel = good;
      kernel.*field += text;
      EXPECT_TRUE(refused(kernel)) << text;
    }
    CompiledKernel kernel = good;
    kernel.options.push_back(text);
    EXPECT_TRUE(refused(kernel)) << text;
  }
}

// Wraps `body` in a frame whose length and checksum are right.
std::string Framed(const std::string& body) {
  std::string bytes = "GEMMDKRN";
  AppendU32(bytes, kCacheFormat);
  AppendU32(bytes, 0);
  AppendU64(bytes, body.size());
  bytes += body;
  return bytes + Sha256Of(bytes);
}

TEST(EntryTest, IgnoresFieldsThatItDoesNotKnow) {
  const std::string bytes = EncodeEntry(FakeKernel("source"));
  RecordWriter future;
  future.Add(99, "a field of a later version");
  const std::string body = bytes.substr(24, bytes.size() - 24 - 32);
  EXPECT_TRUE(DecodeEntry(Framed(body)).ok());
  EXPECT_TRUE(DecodeEntry(Framed(body + std::move(future).Release())).ok());
}

// A summary alone is shown, and its source would not be what was compiled.
TEST(EntryTest, RefusesAnotherSourceUnderTheSameSummary) {
  const std::string bytes = EncodeEntry(FakeKernel("the source"));
  std::string body = bytes.substr(24, bytes.size() - 24 - 32);
  ASSERT_TRUE(DecodeEntry(Framed(body)).ok());
  body.replace(body.find("the source"), 3, "any");
  EXPECT_TRUE(absl::IsDataLoss(DecodeEntry(Framed(body)).status()));
}

TEST(EntryTest, SurvivesGarbageBehindAValidChecksum) {
  std::mt19937 random(1);
  const std::string bytes = EncodeEntry(FakeKernel("source"));
  const std::string body = bytes.substr(24, bytes.size() - 24 - 32);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = body.substr(0, random() % (body.size() + 1));
    for (int flips = 0; flips < 4 && !damaged.empty(); ++flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    DecodeEntry(Framed(damaged)).status().IgnoreError();
  }
}

TEST(EntryTest, RefusesALengthThatWouldOverflow) {
  std::string body;
  AppendU32(body, 1);
  AppendU64(body, ~uint64_t{0});
  EXPECT_TRUE(absl::IsDataLoss(DecodeEntry(Framed(body)).status()));
}

}  // namespace
}  // namespace gemmd::jit
