#include "service/rpc/connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/service/rpc/http2.h"

namespace gemmd::rpc {
namespace {

constexpr int64_t kMiB = 1 << 20;

class ConnectionTest : public ::testing::Test {
 protected:
  ConnectionTest() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    other_ = jit::UniqueFd(fds[1]);
    connection_ = std::make_unique<Connection>(
        1, Connection::Socket{.fd = jit::UniqueFd(fds[0]), .peer = "test"},
        requests_, responses_, calls_, [this] { ++overruns_; });
    Arrive(std::string(http2::kPreface) + http2::Headers(1) +
           http2::Headers(3));
  }

  void Arrive(const std::string& bytes) { connection_->Received(bytes); }
  // The settings, so that headers of calls do not add up.
  void Acknowledge() {
    Arrive(http2::Frame(Frame::kSettings, 0, "", Frame::kAck));
  }
  int64_t OpenCall() {
    connection_->QueueCall();
    return connection_->OpenCall();
  }
  void EndCall() {
    connection_->AnswerCall();
    connection_->CloseCall();
  }
  // A message of 4 MiB on stream 1.
  void ArriveHalf(int64_t bytes) { Arrive(http2::Message(1, bytes, 4 * kMiB)); }

  Budget requests_{"requests", 16 * kMiB, 8 * kMiB};
  Budget responses_{"responses", 16 * kMiB, 8 * kMiB};
  CallCount calls_{{.all = 100, .connection = 50, .connection_least = 5}};
  int overruns_ = 0;
  jit::UniqueFd other_;
  std::unique_ptr<Connection> connection_;
};

TEST_F(ConnectionTest, AnnouncedBytesTakeNothingMore) {
  connection_->BeginRead(4 * kMiB, 4 * kMiB);
  ArriveHalf(4 * kMiB - 1);
  EXPECT_EQ(requests_.held_bytes(), 0);
  Arrive(http2::More(1, 1));
  connection_->EndRead(4 * kMiB, 4 * kMiB);
  EXPECT_EQ(overruns_, 0);
}

TEST_F(ConnectionTest, OthersAreHeldWhileTheyArrive) {
  connection_->BeginRead(4 * kMiB, 0);
  ArriveHalf(3 * kMiB);
  EXPECT_GE(requests_.held_bytes(), 2 * kMiB);
  EXPECT_LE(requests_.held_bytes(), 4 * kMiB);
  Arrive(http2::More(1, kMiB));
  // Until the call holds them.
  EXPECT_GE(requests_.held_bytes(), 2 * kMiB);
  connection_->EndRead(4 * kMiB, 0);
  EXPECT_EQ(requests_.held_bytes(), 0);
  EXPECT_EQ(overruns_, 0);
}

TEST_F(ConnectionTest, OthersAreHeldByThePrincipalThatCalls) {
  auto principal = std::make_shared<Budget::Account>();
  connection_->BeginRead(4 * kMiB, 0);
  ArriveHalf(2 * kMiB);
  const int64_t before = connection_->request_account().held;
  EXPECT_GT(before, 0);
  connection_->CountFor(principal);
  connection_->CountFor(std::make_shared<Budget::Account>());  // The first.
  EXPECT_EQ(connection_->request_account().held, 0);
  EXPECT_EQ(principal->held, before);
  Arrive(http2::More(1, kMiB));
  EXPECT_GT(principal->held, before);
  EXPECT_EQ(requests_.held_bytes(), principal->held);
  Arrive(http2::More(1, kMiB));
  connection_->EndRead(4 * kMiB, 0);
  EXPECT_EQ(principal->held, 0);
  EXPECT_EQ(requests_.held_bytes(), 0);
}

TEST_F(ConnectionTest, MoreThanMayBeReadEndsTheCallsAndThenTheConnection) {
  connection_->BeginRead(kMiB, 0);
  Arrive(http2::Message(1, 3 * kMiB, 100 * kMiB));
  EXPECT_EQ(overruns_, 1);
  EXPECT_TRUE(connection_->overrun());
  EXPECT_FALSE(connection_->deaf());
  Arrive(http2::More(1, 20 * kMiB));
  EXPECT_EQ(overruns_, 1);
  EXPECT_TRUE(connection_->deaf());
}

// Their windows let as much come, whether they have begun here or not.
TEST_F(ConnectionTest, CallsThatWaitMayBringWhatTheirWindowsAllow) {
  std::string together;
  for (uint32_t stream = 5; stream < 45; stream += 2) {
    together += http2::Headers(stream);
    together += http2::Message(stream, 64 << 10, kMiB);
  }
  Arrive(together);
  EXPECT_EQ(overruns_, 0);
  for (int i = 0; i < 22; ++i) connection_->QueueCall();
  Arrive(http2::Message(1, 64 << 10, kMiB));
  EXPECT_EQ(overruns_, 0);
  for (int i = 0; i < 22; ++i) connection_->OpenCall();
  Arrive(http2::Message(3, 64 << 10, kMiB));
  EXPECT_EQ(overruns_, 0);
  EXPECT_FALSE(connection_->deaf());
  EXPECT_EQ(requests_.held_bytes(), 0);
  for (int i = 0; i < 22; ++i) EndCall();
}

TEST_F(ConnectionTest, WhatWasTooMuchIsNoFaultOfWhoReadsLater) {
  ArriveHalf(kMiB);
  EXPECT_EQ(overruns_, 1);
  connection_->Sent(http2::Trailers(1));
  connection_->BeginRead(kMiB, 0);
  EXPECT_FALSE(connection_->overrun());
  connection_->EndRead(kMiB, 0);
}

TEST_F(ConnectionTest, UnlessItIsStillThere) {
  ArriveHalf(kMiB);
  connection_->BeginRead(kMiB, 0);
  EXPECT_TRUE(connection_->overrun());
  connection_->EndRead(kMiB, 0);
}

// Of calls that read nothing more, 64 KiB here and there kept 64 MiB each.
TEST_F(ConnectionTest, WhatIsLeftUnreadKeepsNoMoreThanMayStillArrive) {
  std::vector<std::string> buffers;
  const auto arrive = [&] {
    for (int i = 0; i < 600; ++i) {
      buffers.push_back(http2::More(99, 40000) + http2::Message(1, 59, 59));
      Arrive(buffers.back());
    }
  };
  arrive();
  EXPECT_FALSE(connection_->deaf());
  connection_->Sent(http2::Frame(Frame::kWindow, 1, http2::Number(38400, 4)));
  arrive();
  EXPECT_FALSE(connection_->deaf());
  arrive();
  EXPECT_TRUE(connection_->deaf());
  EXPECT_EQ(requests_.held_bytes(), 0);
}

TEST_F(ConnectionTest, ALieAboutTheSizeIsMoreThanMayBeRead) {
  connection_->BeginRead(kMiB, kMiB);
  ArriveHalf(3 * kMiB);
  EXPECT_EQ(overruns_, 1);
}

TEST_F(ConnectionTest, WhatFindsNoRoomOnTheWayEndsTheCall) {
  Budget::Account other;
  ASSERT_TRUE(requests_.TryTake(other, 16 * kMiB));
  connection_->BeginRead(4 * kMiB, 0);
  ArriveHalf(3 * kMiB);
  EXPECT_EQ(overruns_, 1);
  // It goes on once its calls have ended.
  connection_->EndRead(4 * kMiB, 0);
  EXPECT_FALSE(connection_->overrun());
  connection_->Sent(http2::Trailers(1));
  requests_.Return(other, 16 * kMiB);
  connection_->BeginRead(4 * kMiB, 0);
  Arrive(http2::Message(3, 3 * kMiB, 4 * kMiB));
  EXPECT_EQ(overruns_, 1);
  EXPECT_GE(requests_.held_bytes(), 2 * kMiB);
}

// A client that gives up is still sending: what it had begun to send fills no
// room of the calls beside and after it.
TEST_F(ConnectionTest, ACallThatEndedHoldsNothing) {
  connection_->BeginRead(4 * kMiB, 4 * kMiB);  // Of one that stays.
  for (uint32_t stream = 5; stream < 105; stream += 4) {
    Arrive(http2::Headers(stream) + http2::Headers(stream + 2));
    connection_->BeginRead(4 * kMiB, 4 * kMiB);
    Arrive(http2::Message(stream, 2 * kMiB, 4 * kMiB));
    connection_->Sent(http2::Trailers(stream));
    connection_->EndRead(4 * kMiB, 4 * kMiB);
    Arrive(http2::More(stream, kMiB));
    // And taken back before anybody reads it.
    Arrive(http2::Message(stream + 2, 64 << 10, 4 * kMiB) +
           http2::Reset(stream + 2));
  }
  EXPECT_EQ(requests_.held_bytes(), 0);
  EXPECT_EQ(overruns_, 0);
}

// A deadline ends a call before gRPC has ended its stream.
TEST_F(ConnectionTest, WhatStillComesOfACallThatEndedIsNoFaultOfTheNext) {
  connection_->BeginRead(4 * kMiB, 4 * kMiB);
  ArriveHalf(2 * kMiB);
  connection_->EndRead(4 * kMiB, 4 * kMiB);
  connection_->BeginRead(64 << 10, 0);  // Of the next, on stream 3.
  Arrive(http2::More(1, kMiB));
  EXPECT_FALSE(connection_->overrun());
  EXPECT_GE(requests_.held_bytes(), 2 * kMiB) << "it is there all the same";
  connection_->Sent(http2::Trailers(1));
  Arrive(http2::Message(3, 100, 8 * kMiB));
  EXPECT_FALSE(connection_->overrun());
  // Nothing is left of it: this is the next one's own.
  Arrive(http2::More(3, 4 * kMiB));
  EXPECT_EQ(overruns_, 1);
}

TEST_F(ConnectionTest, CompleteMessagesHideNoHalfOnes) {
  connection_->BeginRead(4 * kMiB, 0);
  Arrive(http2::Message(3, 3 * kMiB, 4 * kMiB));
  const int64_t held = requests_.held_bytes();
  for (int i = 0; i < 10000; ++i) {
    connection_->BeginRead(64 << 10, 0);
    Arrive(http2::Message(1, 10, 10));
    connection_->EndRead(64 << 10, 0);
  }
  EXPECT_GE(requests_.held_bytes(), 2 * kMiB);
  EXPECT_LE(requests_.held_bytes(), held);
}

TEST_F(ConnectionTest, GivesBackWhatItHeldWhenItEnds) {
  connection_->BeginRead(4 * kMiB, 0);
  ArriveHalf(3 * kMiB);
  EXPECT_GT(requests_.held_bytes(), 0);
  connection_.reset();
  EXPECT_EQ(requests_.held_bytes(), 0);
}

TEST_F(ConnectionTest, OneThatBeginsTooManyCallsIsNotListenedTo) {
  uint32_t stream = 5;  // Two have begun.
  const auto begin = [&](int calls) {
    for (int i = 0; i < calls; ++i, stream += 2) Arrive(http2::Headers(stream));
  };
  begin(48);
  EXPECT_FALSE(connection_->deaf());
  // Those that were handed out, and are over, do not count;
  OpenCall();
  EndCall();
  begin(1);
  EXPECT_FALSE(connection_->deaf());
  // neither do those that cannot be waiting.
  calls_.NoneWaits();
  begin(50);
  EXPECT_FALSE(connection_->deaf());
  begin(1);
  EXPECT_TRUE(connection_->deaf());
}

// A client knows of answers before their calls are over.
TEST_F(ConnectionTest, AnsweredCallsCountUntilItIsHeldToItsLimits) {
  EXPECT_EQ(OpenCall(), 1);
  connection_->AnswerCall();
  EXPECT_EQ(OpenCall(), 2);
  Acknowledge();
  EXPECT_EQ(OpenCall(), 2);
  connection_->AnswerCall();
  for (uint32_t stream = 5; stream < 5 + 2 * 100; stream += 2) {
    Arrive(http2::Headers(stream));
    EXPECT_EQ(OpenCall(), 2);
    connection_->AnswerCall();
  }
  EXPECT_FALSE(connection_->deaf());
}

// Work that flow control does not slow down.
TEST_F(ConnectionTest, OneThatSendsNothingButFramesIsNotListenedTo) {
  const std::string settings = http2::Frame(4, 0, "");
  for (int i = 0; i < Connection::kMostIdleFrames; ++i) Arrive(settings);
  EXPECT_FALSE(connection_->deaf());
  // A thousand a second are allowed, and this takes less than a minute.
  for (int i = 0; i < 60'000 && !connection_->deaf(); ++i) Arrive(settings);
  EXPECT_TRUE(connection_->deaf());
}

// Who sends bytes may send frames; these bring bytes of nothing.
TEST_F(ConnectionTest, OneThatSendsLongFramesOfNothingIsNotListenedTo) {
  const std::string settings = http2::Frame(4, 0, std::string(16380, 's'));
  for (int i = 0; i < 10; ++i) Arrive(settings);
  EXPECT_FALSE(connection_->deaf());
  for (int i = 0; i < 300 && !connection_->deaf(); ++i) Arrive(settings);
  EXPECT_TRUE(connection_->deaf());
}

TEST_F(ConnectionTest, OneThatSendsOnForCallsThatEndedIsNotListenedTo) {
  Acknowledge();
  const std::string late =
      http2::Frame(Frame::kData, 1, std::string(1024, 'd'));
  connection_->Sent(http2::Reset(1));
  for (int i = 0; i < Connection::kMostIdleFrames; ++i) Arrive(late);
  EXPECT_FALSE(connection_->deaf());
  for (int i = 0; i < 60'000 && !connection_->deaf(); ++i) Arrive(late);
  EXPECT_TRUE(connection_->deaf());
}

// Clients that do not know yet that these have ended.
TEST_F(ConnectionTest, CallsThatAreEndedBringWhatTheirWindowsAllowed) {
  Acknowledge();
  for (uint32_t stream = 5; stream < 5 + 2 * 4000; stream += 2) {
    OpenCall();
    Arrive(http2::Headers(stream));
    connection_->Sent(http2::Reset(stream));
    Arrive(http2::More(stream, kCallAllowanceBytes));
    EndCall();
  }
  EXPECT_FALSE(connection_->deaf());
}

// Each beyond what gRPC permits costs kilobytes there.
TEST_F(ConnectionTest, OneThatPingsAndPingsIsNotListenedTo) {
  const std::string ping = http2::Frame(Frame::kPing, 0, "12345678");
  const std::string answer = http2::More(1, 16 << 10);
  for (int i = 0; i < Connection::kMostPings; ++i) Arrive(ping);
  EXPECT_FALSE(connection_->deaf());
  // Who is sent something may measure how fast it comes.
  for (int i = 0; i < 1000; ++i) {
    connection_->Sent(answer);
    Arrive(ping);
  }
  EXPECT_FALSE(connection_->deaf());
  // Ten a second are allowed, and this takes less than a minute.
  for (int i = 0; i < 700 && !connection_->deaf(); ++i) Arrive(ping);
  EXPECT_TRUE(connection_->deaf());
}

// To begin a call and take it back costs the client nothing.
TEST_F(ConnectionTest, OneThatTakesCallsBackAndBackIsNotListenedTo) {
  Acknowledge();
  uint32_t stream = 5;
  const auto reset = [&] {
    OpenCall();
    Arrive(http2::Headers(stream) +
           http2::Frame(Frame::kReset, stream, http2::Number(8, 4)));
    EndCall();
    stream += 2;
  };
  for (int i = 0; i < Connection::kMostResets; ++i) reset();
  EXPECT_FALSE(connection_->deaf());
  // Who takes answers may lose patience as often.
  const std::string answer = http2::More(1, 64);
  for (int i = 0; i < 100'000; ++i) {
    connection_->Sent(answer);
    reset();
  }
  EXPECT_FALSE(connection_->deaf());
  // A thousand a second are allowed, and this takes less than a minute.
  for (int i = 0; i < 60'000 && !connection_->deaf(); ++i) reset();
  EXPECT_TRUE(connection_->deaf());
}

TEST_F(ConnectionTest, CallsAndBytesBringFramesWithThem) {
  Acknowledge();
  const std::string window = http2::Frame(8, 0, http2::Number(1, 4));
  const std::string answer = http2::More(1, 1024);
  for (int i = 0; i < 200'000; ++i) {
    Arrive(window);
    connection_->Sent(answer);
  }
  EXPECT_FALSE(connection_->deaf());
  for (uint32_t i = 0; i < 20'000; ++i) {
    Arrive(http2::Headers(2 * i + 5));
    OpenCall();
    EndCall();
    for (int j = 0; j < 16; ++j) Arrive(window);
  }
  EXPECT_FALSE(connection_->deaf());
}

TEST_F(ConnectionTest, OneWhoseHeadersDoNotEndIsNotListenedTo) {
  const std::string more = http2::Frame(Frame::kContinuation, 3, "y");
  for (int i = 0; i < 32; ++i) Arrive(more);
  EXPECT_FALSE(connection_->deaf());
  Arrive(more);
  EXPECT_TRUE(connection_->deaf());
}

// gRPC would take a message of a kind that there is not for an empty one.
TEST_F(ConnectionTest, OneThatSendsWhatIsNoMessageIsNotListenedTo) {
  const std::string of_kind[] = {http2::Number(0, 5),
                                 http2::Number(1, 1) + http2::Number(0, 4)};
  constexpr uint8_t kEndsStream = 1;
  uint32_t stream = 1;
  for (const uint8_t flags : {uint8_t{0}, kEndsStream}) {
    for (const std::string& message : of_kind) {
      Arrive(http2::Headers(stream));
      Arrive(http2::Frame(Frame::kData, stream, message, flags));
      stream += 2;
    }
  }
  EXPECT_FALSE(connection_->deaf());
  Arrive(http2::Headers(stream) + http2::Data(stream, std::string("\2", 1)));
  EXPECT_FALSE(connection_->deaf()) << "not before its size has come";
  Arrive(http2::More(stream, 4));
  EXPECT_TRUE(connection_->deaf());
}

TEST_F(ConnectionTest, NorIfItIsTheLastOfItsCall) {
  Arrive(http2::Headers(1));
  Arrive(http2::Frame(Frame::kData, 1, "\2", 1));
  EXPECT_TRUE(connection_->deaf());
}

TEST_F(ConnectionTest, IsBusyFromItsFirstCallToItsLast) {
  EXPECT_EQ(calls_.busy_connections(), 0);
  for (int i = 0; i < 2; ++i) {
    OpenCall();
    OpenCall();
    EndCall();
    EXPECT_EQ(calls_.busy_connections(), 1);
    EndCall();
    EXPECT_EQ(calls_.busy_connections(), 0);
  }
}

TEST_F(ConnectionTest, OneThatIsCutIsNotListenedTo) {
  connection_->Cut();
  EXPECT_TRUE(connection_->deaf());
}

}  // namespace
}  // namespace gemmd::rpc
