// The shared tier against a real Redis and against servers that misbehave.
#include "jit/cache/redis_tier.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/sha256.h"
#include "jit/cache/entry.h"
#include "jit/cache/signature.h"
#include "tests/jit/cache/redis_server.h"
#include "tests/jit/fake_compiler.h"

namespace gemmd::jit {
namespace {

absl::Time Soon() { return absl::Now() + absl::Seconds(30); }

std::shared_ptr<Tier> Open(RedisTierOptions options) {
  options.allow_unsigned = true;
  auto tier = CreateRedisTier(std::move(options));
  EXPECT_TRUE(tier.ok()) << tier.status();
  return *std::move(tier);
}

std::shared_ptr<Tier> Open(const std::string& address,
                           const std::string& signing_key = "") {
  return Open({.server = {.address = address},
               .signing_key = signing_key,
               .load_timeout = absl::Milliseconds(300)});
}

absl::Status Put(const std::string& address, const std::string& key,
                 const std::string& value) {
  RedisConnection connection({.address = address});
  return connection.Command({"SET", "gemmd:1:" + key, value}, 100, Soon())
      .status();
}

const CompiledKernel kKernel = FakeKernel("source");

TEST(RedisTierTest, ReturnsWhatWasStored) {
  const RedisServerProcess server;
  const auto tier = Open(server.address());
  EXPECT_TRUE(absl::IsNotFound(tier->Load(kKernel.key).status()));
  ASSERT_TRUE(tier->Store(kKernel).ok());
  const auto kernel = Open(server.address())->Load(kKernel.key);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(kernel->cubin, kKernel.cubin);
}

TEST(RedisTierTest, WithoutASigningKeyItIsRefusedUnlessForced) {
  const RedisTierOptions options = {.server = {.address = "unix:/socket"}};
  EXPECT_TRUE(absl::IsFailedPrecondition(CreateRedisTier(options).status()));
  RedisTierOptions forced = options, with_key = options;
  forced.allow_unsigned = true;
  EXPECT_TRUE(CreateRedisTier(forced).ok());
  with_key.signing_key = "key";
  EXPECT_TRUE(CreateRedisTier(with_key).ok());
}

TEST(RedisTierTest, UsesAPasswordAndAUser) {
  const RedisServerProcess server("secret");
  RedisConnection admin({.address = server.address(), .password = "secret"});
  ASSERT_TRUE(admin
                  .Command({"ACL", "SETUSER", "gemmd", "on", ">its own",
                            "~gemmd:*", "+get", "+set", "+del"},
                           100, Soon())
                  .ok());
  EXPECT_TRUE(
      Open({.server = {.address = server.address(), .password = "secret"}})
          ->Store(kKernel)
          .ok());
  EXPECT_TRUE(Open({.server = {.address = server.address(),
                               .user = "gemmd",
                               .password = "its own"}})
                  ->Load(kKernel.key)
                  .ok());
  // One that may not write is told so, as one with a wrong password is.
  ASSERT_TRUE(admin
                  .Command({"ACL", "SETUSER", "reader", "on", ">secret",
                            "~gemmd:*", "+get"},
                           100, Soon())
                  .ok());
  const absl::Status refused = Open({.server = {.address = server.address(),
                                                .user = "reader",
                                                .password = "secret"}})
                                   ->Store(kKernel);
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
}

void SendText(int socket, absl::string_view text) {
  char request[4096];
  if (recv(socket, request, sizeof(request), 0) <= 0) return;
  if (send(socket, text.data(), text.size(), MSG_NOSIGNAL) < 0) return;
}

// It is no damage: nothing may be quarantined for a wrong password.
TEST(RedisTierTest, AWrongOrMissingPasswordIsAnErrorOfItsOwn) {
  const RedisServerProcess server("secret");
  const auto none = Open(server.address())->Load(kKernel.key).status();
  EXPECT_TRUE(absl::IsPermissionDenied(none)) << none;
  EXPECT_TRUE(absl::StrContains(none.message(), "password")) << none;
  const auto wrong =
      Open({.server = {.address = server.address(), .password = "wrong"}})
          ->Load(kKernel.key)
          .status();
  EXPECT_TRUE(absl::IsPermissionDenied(wrong)) << wrong;
}

// Nor for one that is full, or starts.
TEST(RedisTierTest, AServerThatIsFullIsNoDamage) {
  const FakeServer server([](int socket) {
    SendText(socket, "-OOM command not allowed when used memory > ...\r\n");
  });
  const auto full = Open(server.address())->Store(kKernel);
  EXPECT_TRUE(absl::StrContains(full.message(), "(OOM)")) << full;

  const auto control = std::make_shared<FakeCompiler::Control>();
  auto cache = KernelCache::Create({.shared = Open(server.address())},
                                   std::make_unique<FakeCompiler>(control));
  EXPECT_TRUE(cache->Get({.name = "one", .source = "one"}, Soon()).ok());
  EXPECT_GE(cache->statistics().tiers[0].errors, 1);
  EXPECT_EQ(cache->statistics().quarantined, 0);
}

TEST(RedisTierTest, FindsWhatAnyCompilerMadeOfASource) {
  const RedisServerProcess server;
  const auto tier = Open(server.address(), "key");
  const Instance instance = {.name = "fake",
                             .source = kKernel.source,
                             .options = {kKernel.options[0]}};
  EXPECT_TRUE(absl::IsNotFound(tier->LoadFor(instance).status()));
  ASSERT_TRUE(tier->Store(kKernel).ok());
  EXPECT_EQ(tier->LoadFor(instance)->key, kKernel.key);
  EXPECT_TRUE(absl::IsNotFound(
      tier->LoadFor({.name = "fake", .source = "other"}).status()));
  EXPECT_TRUE(absl::IsDataLoss(
      tier->LoadFor(
              {.name = "fake", .source = kKernel.source, .options = {"-x"}})
          .status()));
  // A pointer is not signed, and may have been bent to another entry.
  const CompiledKernel other = FakeKernel("other");
  ASSERT_TRUE(tier->Store(other).ok());
  const std::string pointer =
      "source:" + absl::BytesToHexString(Sha256Of(kKernel.source));
  for (const std::string& value : {other.key, std::string("../../etc")}) {
    ASSERT_TRUE(Put(server.address(), pointer, value).ok());
    EXPECT_TRUE(absl::IsDataLoss(tier->LoadFor(instance).status()));
  }
}

TEST(RedisTierTest, IgnoresWhatIsNotSignedWithItsKey) {
  const RedisServerProcess server;
  const auto signing = Open(server.address(), "one key");
  for (const std::string& value :
       {EncodeEntry(kKernel), Sign("", EncodeEntry(kKernel)),
        Sign("another key", EncodeEntry(kKernel)), std::string("garbage"),
        std::string()}) {
    ASSERT_TRUE(Put(server.address(), kKernel.key, value).ok());
    EXPECT_TRUE(absl::IsDataLoss(signing->Load(kKernel.key).status()));
  }
  ASSERT_TRUE(signing->Store(kKernel).ok());
  EXPECT_TRUE(signing->Load(kKernel.key).ok());
  EXPECT_TRUE(Open(server.address())->Load(kKernel.key).ok());
}

TEST(RedisTierTest, IgnoresAnEntryThatIsDamagedOrAnothers) {
  const RedisServerProcess server;
  const auto tier = Open(server.address());
  std::string damaged = Sign("", EncodeEntry(kKernel));
  damaged[damaged.size() / 2] ^= 1;
  ASSERT_TRUE(Put(server.address(), kKernel.key, damaged).ok());
  EXPECT_TRUE(absl::IsDataLoss(tier->Load(kKernel.key).status()));
  ASSERT_TRUE(Put(server.address(), kKernel.key,
                  Sign("", EncodeEntry(FakeKernel("other"))))
                  .ok());
  EXPECT_TRUE(absl::IsDataLoss(tier->Load(kKernel.key).status()));
  CompiledKernel contradicting = kKernel;
  contradicting.cubin = FakeCubin(kKernel.registers + 1);
  ASSERT_TRUE(tier->Store(contradicting).ok());
  EXPECT_TRUE(absl::IsDataLoss(tier->Load(kKernel.key).status()));
}

TEST(RedisTierTest, ComesBackAfterTheServerDid) {
  auto server = std::make_unique<RedisServerProcess>();
  const auto tier = Open({.server = {.address = server->address()},
                          .pause = absl::Milliseconds(50)});
  ASSERT_TRUE(tier->Store(kKernel).ok());
  server->Kill();
  EXPECT_TRUE(absl::IsUnavailable(tier->Load(kKernel.key).status()));
  for (int i = 0; i < 3; ++i) tier->Load(kKernel.key).status().IgnoreError();
  // Paused: a miss, and nobody is asked.
  EXPECT_TRUE(absl::IsNotFound(tier->Load(kKernel.key).status()));
  absl::SleepFor(absl::Milliseconds(60));
  EXPECT_TRUE(absl::IsUnavailable(tier->Load(kKernel.key).status()));
}

// A request waits for a load, and nobody for a store.
TEST(RedisTierTest, NoLoadWaitsBehindAStore) {
  const RedisServerProcess server;
  constexpr absl::Duration kLong = absl::Seconds(30);
  const auto tier = Open({.server = {.address = server.address()},
                          .load_timeout = kLong,
                          .store_timeout = kLong});
  RedisConnection admin({.address = server.address()});
  ASSERT_TRUE(
      admin.Command({"CLIENT", "PAUSE", "20000", "WRITE"}, 100, Soon()).ok());
  std::jthread store([&] { EXPECT_TRUE(tier->Store(kKernel).ok()); });
  absl::SleepFor(absl::Milliseconds(100));
  const absl::Time start = absl::Now();
  EXPECT_TRUE(absl::IsNotFound(tier->Load(kKernel.key).status()));
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  EXPECT_TRUE(admin.Command({"CLIENT", "UNPAUSE"}, 100, Soon()).ok());
}

TEST(RedisTierTest, ALoadAndAStoreHaveTimesOfTheirOwn) {
  const FakeServer server([](int socket) {
    char bytes[4096];
    while (recv(socket, bytes, sizeof(bytes), 0) > 0) {
    }
  });
  constexpr absl::Duration kShort = absl::Milliseconds(100);
  constexpr absl::Duration kLong = absl::Seconds(20);
  const RedisServer address = {.address = server.address()};
  const absl::Time start = absl::Now();
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      Open({.server = address, .load_timeout = kShort, .store_timeout = kLong})
          ->Load(kKernel.key)
          .status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      Open({.server = address, .load_timeout = kLong, .store_timeout = kShort})
          ->Store(kKernel)));
  EXPECT_LT(absl::Now() - start, kLong / 2);
}

// As servers do with those that are idle for long.
TEST(RedisTierTest, AConnectionThatTheServerClosedIsMadeAnew) {
  const FakeServer server([](int socket) { SendText(socket, "$-1\r\n"); });
  const auto tier = Open(server.address());
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = tier->Load(kKernel.key).status();
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
  }
}

TEST(RedisTierTest, ErrorsNameNoAddress) {
  const absl::Status status =
      Open("unix:/nonexistent/socket")->Load(kKernel.key).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_FALSE(absl::StrContains(status.message(), "nonexistent")) << status;
}

// A server that answers as `replies` say, one after the other, each on any
// connection; then with nil.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::vector<std::string> replies)
      : replies_(std::move(replies)), server_([this](int socket) {
          char request[65536];
          while (recv(socket, request, sizeof(request), 0) > 0) {
            const size_t turn = turn_++;
            const std::string reply =
                turn < replies_.size() ? replies_[turn] : "$-1\r\n";
            if (reply.empty()) return;  // Closes the connection.
            if (send(socket, reply.data(), reply.size(), MSG_NOSIGNAL) < 0) {
              return;
            }
          }
        }) {}

  std::string address() const { return server_.address(); }
  size_t turns() const { return turn_; }

 private:
  const std::vector<std::string> replies_;
  std::atomic<size_t> turn_ = 0;
  const FakeServer server_;
};

// Two failures, a success, two failures: never three in a row.
TEST(RedisTierTest, PausesAfterFailuresInARowOnly) {
  const ScriptedServer server({"", "", "$-1\r\n", "", "", "$-1\r\n"});
  const auto tier = Open({.server = {.address = server.address()},
                          .failures_until_pause = 3,
                          .pause = absl::Hours(1)});
  for (int i = 0; i < 6; ++i) tier->Load(kKernel.key).status().IgnoreError();
  // Were it paused, nobody would be asked.
  const size_t before = server.turns();
  EXPECT_TRUE(absl::IsNotFound(tier->Load(kKernel.key).status()));
  EXPECT_GT(server.turns(), before);
}

// Nobody changes a password within seconds, or a certificate.
TEST(RedisTierTest, PausesAfterRefusals) {
  const std::string refusal = "-NOAUTH Authentication required.\r\n";
  const ScriptedServer server({refusal, refusal, refusal});
  const auto tier = Open({.server = {.address = server.address()},
                          .failures_until_pause = 3,
                          .pause = absl::Hours(1)});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(absl::IsPermissionDenied(tier->Load(kKernel.key).status()));
  }
  EXPECT_TRUE(absl::IsNotFound(tier->Load(kKernel.key).status()));
  EXPECT_EQ(server.turns(), 3u);
}

// Else the last of many compiles waits for as many failures.
TEST(RedisTierTest, ThoseWhoWaitForTheConnectionDoNotFailOneAfterTheOther) {
  std::atomic<int> connections = 0;
  const FakeServer server([&](int socket) {
    ++connections;
    char bytes[4096];
    while (recv(socket, bytes, sizeof(bytes), 0) > 0) {
    }
  });
  const auto tier = Open({.server = {.address = server.address()},
                          .load_timeout = absl::Milliseconds(200),
                          .failures_until_pause = 3,
                          .pause = absl::Hours(1)});
  std::vector<std::jthread> threads;
  for (int i = 0; i < 12; ++i) {
    threads.emplace_back([&] { EXPECT_FALSE(tier->Load(kKernel.key).ok()); });
  }
  threads.clear();
  EXPECT_LE(connections, 3);
}

// What is left of a bad reply must not be taken for the next one.
TEST(RedisTierTest, AConnectionThatSpokeNonsenseIsGivenUp) {
  const std::string good = Sign("", EncodeEntry(kKernel));
  const std::string bulk = absl::StrCat("$", good.size(), "\r\n", good, "\r\n");
  const ScriptedServer server(
      {"nonsense\r\n" + absl::StrCat("$3\r\nold\r\n"), bulk});
  const auto tier = Open(server.address());
  EXPECT_TRUE(absl::IsDataLoss(tier->Load(kKernel.key).status()));
  const auto kernel = tier->Load(kKernel.key);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
}

// Each of these is a server that takes the request and then does this.
struct Misbehaviour {
  const char* name;
  std::function<void(int socket)> talk;
  absl::StatusCode code;
};

class MisbehavingServerTest : public testing::TestWithParam<Misbehaviour> {};

// The cache above answers as if there were no such tier.
TEST_P(MisbehavingServerTest, CostsARequestNothingButTime) {
  const FakeServer server(GetParam().talk);
  const auto tier = Open(server.address());
  const absl::Time start = absl::Now();
  EXPECT_EQ(tier->Load(kKernel.key).status().code(), GetParam().code);
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));

  const auto control = std::make_shared<FakeCompiler::Control>();
  auto cache = KernelCache::Create({.shared = Open(server.address())},
                                   std::make_unique<FakeCompiler>(control));
  const auto result = cache->Get({.name = "one", .source = "one"}, Soon());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->source, CubinSource::kCompiled);
  EXPECT_GE(cache->statistics().tiers[0].errors, 1);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, MisbehavingServerTest,
    testing::Values(
        Misbehaviour{"ClosesAtOnce", [](int) {},
                     absl::StatusCode::kUnavailable},
        Misbehaviour{"SaysNothing",
                     [](int socket) {
                       char bytes[4096];
                       while (recv(socket, bytes, sizeof(bytes), 0) > 0) {
                       }
                     },
                     absl::StatusCode::kDeadlineExceeded},
        Misbehaviour{"DripsForever",
                     [](int socket) {
                       SendText(socket, "$1000000\r\n");
                       while (send(socket, "x", 1, MSG_NOSIGNAL) > 0) {
                         absl::SleepFor(absl::Milliseconds(20));
                       }
                     },
                     absl::StatusCode::kDeadlineExceeded},
        Misbehaviour{"DiesInMidReply",
                     [](int socket) { SendText(socket, "$1000\r\nhalf of"); },
                     absl::StatusCode::kUnavailable},
        Misbehaviour{"SpeaksHttp",
                     [](int socket) {
                       SendText(socket, "HTTP/1.1 400 Bad Request\r\n\r\n");
                     },
                     absl::StatusCode::kDataLoss},
        Misbehaviour{
            "PromisesTooMuch",
            [](int socket) { SendText(socket, "$99999999999999\r\n"); },
            absl::StatusCode::kDataLoss},
        Misbehaviour{"PromisesLessThanNothing",
                     [](int socket) { SendText(socket, "$-2\r\n"); },
                     absl::StatusCode::kDataLoss},
        Misbehaviour{"ReportsAnError",
                     [](int socket) { SendText(socket, "-ERR no\r\n"); },
                     absl::StatusCode::kFailedPrecondition},
        Misbehaviour{
            "NeverEndsItsLine",
            [](int socket) { SendText(socket, std::string(100000, 'x')); },
            absl::StatusCode::kDataLoss}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace gemmd::jit
