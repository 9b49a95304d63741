// What one connection may have: calls, and time in which it says nothing.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/integration/eventually.h"
#include "tests/integration/raw_call.h"
#include "tests/integration/raw_http2.h"
#include "tests/integration/silent_peer.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using testing::Connect;
using testing::OnesTimesTwos;
using testing::RawHttp2;
using testing::SilentPeer;
using testing::TestServer;

constexpr char kMatmul[] = "/gemmd.v1.MatmulService/Matmul";
// Longer than any limit of these tests, shorter than a test's time-out.
constexpr absl::Duration kPatience = absl::Seconds(60);

grpc::Status Multiply(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
  v1::MatmulResponse response;
  return v1::MatmulService::NewStub(channel)->Matmul(
      &context, OnesTimesTwos(2, 1, 2), &response);
}

TEST(ConnectionLimits, OneConnectionHasItsShareOfCalls) {
  TestServer::Options options;
  options.limits.max_calls_per_connection = 20;
  TestServer server(options);
  RawHttp2 client(server.address());
  for (int i = 0; i < 30; ++i) client.Open(kMatmul);
  const absl::Time start = absl::Now();
  while (client.alive() && client.ended() < 10 &&
         absl::Now() - start < kPatience) {
    client.Read(absl::Milliseconds(20));
  }
  // Refused beyond 20; or cut off, once it knew the limit and did not care.
  EXPECT_TRUE(!client.alive() || client.ended() == 10) << client.ended();
  EXPECT_TRUE(Multiply(server.unix_channel()).ok());
}

// Whose calls stay though they say nothing.
TestServer::Options Patient() {
  TestServer::Options options;
  options.limits.pressed_stall_timeout = options.limits.stall_timeout;
  return options;
}

// Of `calls` more calls of a client, how many the server ends: at least
// `expected`, which are waited for.
int64_t Ended(RawHttp2& client, int calls, int64_t expected) {
  for (int i = 0; i < calls; ++i) client.Open(kMatmul);
  const absl::Time start = absl::Now();
  while (client.alive() && client.ended() < expected &&
         absl::Now() - start < kPatience) {
    client.Read(absl::Milliseconds(20));
  }
  client.Read(absl::Milliseconds(100));  // For more than there should be.
  return client.ended();
}

// Opens calls that say nothing, `count` on each of `clients`, and waits until
// each has a place or has ended.
std::vector<std::unique_ptr<RawHttp2>> HoldPlaces(TestServer& server,
                                                  int clients, int count) {
  std::vector<std::unique_ptr<RawHttp2>> all;
  const std::atomic<int64_t>& places = server.server().runtime().places;
  for (int i = 0; i < clients; ++i) {
    all.push_back(std::make_unique<RawHttp2>(server.address()));
    for (int j = 0; j < count; ++j) all.back()->Open(kMatmul);
    EXPECT_TRUE(testing::Eventually([&] {
      int64_t ended = 0;
      for (const auto& client : all) {
        client->Read(absl::Milliseconds(1));
        ended += client->alive() ? client->ended() : count;
      }
      return ended + places >= int64_t{count} * (i + 1);
    }));
  }
  return all;
}

TEST(ConnectionLimits, EveryConnectionHasPlacesWhateverOthersHold) {
  TestServer::Options options = Patient();
  options.limits.max_calls = 20;
  TestServer server(options);
  const auto others = HoldPlaces(server, 8, 16);
  const grpc::Status status = Multiply(Connect(server.address()));
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST(ConnectionLimits, BeyondThoseItSharesThePlacesThatAreLeft) {
  TestServer::Options options = Patient();
  options.limits.max_calls = 60;
  TestServer server(options);
  const auto others = HoldPlaces(server, 4, 16);
  // All are taken: no more than the least for this one.
  RawHttp2 client(server.address());
  EXPECT_EQ(Ended(client, 30, 14), 14);
}

TEST(ConnectionLimits, ItsShareIsAPartOfAllPlacesThoughOthersAreFree) {
  TestServer::Options options = Patient();
  options.limits.max_calls = 80;
  TestServer server(options);
  const auto other = HoldPlaces(server, 1, 4);
  RawHttp2 client(server.address());
  EXPECT_EQ(Ended(client, 70, 30), 30);  // Half of 80 for each of two.
}

TEST(ConnectionLimits, PlacesThatOthersHoldAreNotGivenTwice) {
  TestServer::Options options = Patient();
  options.limits.max_calls = 80;
  TestServer server(options);
  const auto other = HoldPlaces(server, 1, 60);  // While it is alone.
  RawHttp2 client(server.address());
  EXPECT_EQ(Ended(client, 30, 10), 10);  // 20 are left of all, not its 40.
}

TEST(ConnectionLimits, WhoBeginsFarMoreThanItMayIsCutOff) {
  TestServer::Options options;
  options.limits.max_calls_per_connection = 20;
  TestServer server(options);
  RawHttp2 client(server.address());
  for (int i = 0; client.alive() && i < 1000; ++i) {
    client.Reset(client.Open(kMatmul));
  }
  const absl::Time start = absl::Now();
  while (client.alive() && absl::Now() - start < kPatience) {
    client.Read(absl::Milliseconds(20));
  }
  EXPECT_FALSE(client.alive());
  EXPECT_TRUE(Multiply(Connect(server.address())).ok());
}

TEST(ConnectionLimits, ConnectionsBeyondTheLimitTakeThePlaceOfIdleOnes) {
  TestServer::Options options;
  options.limits.max_connections = 4;
  TestServer server(options);
  std::vector<std::unique_ptr<RawHttp2>> idle;
  for (int i = 0; i < 20; ++i) {
    idle.push_back(std::make_unique<RawHttp2>(server.address()));
  }
  EXPECT_TRUE(Multiply(Connect(server.address())).ok());
}

// None of which can be closed for others.
TEST(ConnectionLimits, ConnectionsThatAllHaveSilentCallsMakeRoomSoon) {
  TestServer::Options options;
  options.limits.max_connections = 8;
  options.limits.stall_timeout = kPatience * 2;
  options.limits.pressed_stall_timeout = absl::Milliseconds(200);
  TestServer server(options);
  const auto silent = HoldPlaces(server, 8, 1);
  EXPECT_TRUE(testing::Eventually(
      [&] { return Multiply(Connect(server.address())).ok(); }));
}

constexpr uint8_t kPing = 6;
constexpr uint8_t kGoAway = 7;

TEST(ConnectionLimits, WhoDoesNotAnswerWhetherItIsAliveIsClosed) {
  TestServer::Options options;
  options.limits.keepalive_time = absl::Milliseconds(200);
  options.limits.keepalive_timeout = absl::Milliseconds(200);
  TestServer server(options);
  SilentPeer peer(server.address());
  EXPECT_TRUE(peer.Ends(kPatience));
  EXPECT_TRUE(peer.Heard(kPing));
}

TEST(ConnectionLimits, WithoutAQuestionASilentConnectionStays) {
  TestServer server;
  SilentPeer peer(server.address());
  EXPECT_FALSE(peer.Ends(absl::Seconds(2)));
  EXPECT_FALSE(peer.Heard(kPing));
  EXPECT_FALSE(peer.Heard(kGoAway));
}

TEST(ConnectionLimits, AnIdleConnectionIsAskedToComeAgain) {
  TestServer::Options options;
  options.limits.connection_idle = absl::Seconds(1);
  TestServer server(options);
  SilentPeer peer(server.address());
  EXPECT_TRUE(peer.Hears(kGoAway, kPatience));
}

TEST(ConnectionLimits, AnOldConnectionIsAskedToComeAgain) {
  TestServer::Options options = Patient();
  options.limits.connection_age = absl::Seconds(1);
  TestServer server(options);
  SilentPeer peer(server.address());
  EXPECT_TRUE(peer.Hears(kGoAway, kPatience));
}

}  // namespace
}  // namespace gemmd
