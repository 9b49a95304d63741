#include "service/rpc/connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "absl/strings/string_view.h"

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
  }

  Budget requests_{"requests", 16 * kMiB, 8 * kMiB};
  Budget responses_{"responses", 16 * kMiB, 8 * kMiB};
  CallCount calls_{{.all = 100, .connection = 50, .connection_least = 5}};
  int overruns_ = 0;
  jit::UniqueFd other_;
  std::unique_ptr<Connection> connection_;
};

TEST_F(ConnectionTest, AnnouncedBytesTakeNothingMore) {
  connection_->BeginRead(4 * kMiB, 4 * kMiB);
  connection_->Received(4 * kMiB);
  EXPECT_EQ(requests_.held_bytes(), 0);
  connection_->EndRead(4 * kMiB, 4 * kMiB, 4 * kMiB);
  EXPECT_EQ(overruns_, 0);
}

TEST_F(ConnectionTest, OthersAreHeldWhileTheyArrive) {
  connection_->BeginRead(4 * kMiB, 0);
  connection_->Received(3 * kMiB);
  EXPECT_GE(requests_.held_bytes(), 2 * kMiB);
  EXPECT_LE(requests_.held_bytes(), 4 * kMiB);
  connection_->EndRead(4 * kMiB, 0, 3 * kMiB);
  EXPECT_EQ(requests_.held_bytes(), 0);
  EXPECT_EQ(overruns_, 0);
}

TEST_F(ConnectionTest, OthersAreHeldByThePrincipalThatCalls) {
  auto principal = std::make_shared<Budget::Account>();
  connection_->BeginRead(4 * kMiB, 0);
  connection_->Received(2 * kMiB);
  const int64_t before = connection_->request_account().held;
  EXPECT_GT(before, 0);
  connection_->CountFor(principal);
  connection_->CountFor(std::make_shared<Budget::Account>());  // The first.
  EXPECT_EQ(connection_->request_account().held, 0);
  EXPECT_EQ(principal->held, before);
  connection_->Received(kMiB);
  EXPECT_GT(principal->held, before);
  EXPECT_EQ(requests_.held_bytes(), principal->held);
  connection_->EndRead(4 * kMiB, 0, 3 * kMiB);
  EXPECT_EQ(principal->held, 0);
  EXPECT_EQ(requests_.held_bytes(), 0);
}

TEST_F(ConnectionTest, MoreThanMayBeReadEndsTheCallsAndThenTheConnection) {
  connection_->BeginRead(kMiB, 0);
  connection_->Received(3 * kMiB);
  EXPECT_EQ(overruns_, 1);
  EXPECT_TRUE(connection_->overrun());
  EXPECT_FALSE(connection_->deaf());
  connection_->Received(20 * kMiB);
  EXPECT_TRUE(connection_->deaf());
}

TEST_F(ConnectionTest, ALieAboutTheSizeIsMoreThanMayBeRead) {
  connection_->BeginRead(kMiB, kMiB);
  connection_->Received(3 * kMiB);
  EXPECT_EQ(overruns_, 1);
}

TEST_F(ConnectionTest, WhatFindsNoRoomOnTheWayEndsTheCall) {
  Budget::Account other;
  ASSERT_TRUE(requests_.TryTake(other, 16 * kMiB));
  connection_->BeginRead(4 * kMiB, 0);
  connection_->Received(3 * kMiB);
  EXPECT_EQ(overruns_, 1);
  // It goes on once its calls have ended.
  connection_->EndRead(4 * kMiB, 0, 0);
  EXPECT_FALSE(connection_->overrun());
  requests_.Return(other, 16 * kMiB);
  connection_->BeginRead(4 * kMiB, 0);
  connection_->Received(3 * kMiB);
  EXPECT_EQ(overruns_, 1);
}

TEST_F(ConnectionTest, GivesBackWhatItHeldWhenItEnds) {
  connection_->BeginRead(4 * kMiB, 0);
  connection_->Received(3 * kMiB);
  EXPECT_GT(requests_.held_bytes(), 0);
  connection_.reset();
  EXPECT_EQ(requests_.held_bytes(), 0);
}

TEST_F(ConnectionTest, OneThatBeginsTooManyCallsIsNotListenedTo) {
  connection_->Look(absl::string_view("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
  const auto begin = [&](int stream) {
    const char header[] = {0,
                           0,
                           0,
                           1,
                           0,
                           0,
                           0,
                           static_cast<char>(stream >> 8),
                           static_cast<char>(stream)};
    connection_->Look(header);
  };
  for (int i = 0; i < 50; ++i) begin(2 * i + 1);
  EXPECT_FALSE(connection_->deaf());
  // Those that were handed out, and are over, do not count;
  connection_->OpenCall();
  connection_->CloseCall();
  begin(101);
  EXPECT_FALSE(connection_->deaf());
  // neither do those that cannot be waiting.
  calls_.NoneWaits();
  for (int i = 0; i < 50; ++i) begin(2 * i + 103);
  EXPECT_FALSE(connection_->deaf());
  begin(203);
  EXPECT_TRUE(connection_->deaf());
}

// Work that flow control does not slow down.
TEST_F(ConnectionTest, OneThatSendsNothingButFramesIsNotListenedTo) {
  connection_->Look(absl::string_view("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
  const char settings[] = {0, 0, 0, 4, 0, 0, 0, 0, 0};
  for (int i = 0; i < Connection::kMostIdleFrames; ++i) {
    connection_->Look(settings);
  }
  EXPECT_FALSE(connection_->deaf());
  // A thousand a second are allowed, and this takes less than a minute.
  for (int i = 0; i < 60'000 && !connection_->deaf(); ++i) {
    connection_->Look(settings);
  }
  EXPECT_TRUE(connection_->deaf());
}

// Each beyond what gRPC permits costs kilobytes there.
TEST_F(ConnectionTest, OneThatPingsAndPingsIsNotListenedTo) {
  connection_->Look(absl::string_view("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
  const char ping[] = {0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
  for (int i = 0; i < Connection::kMostPings; ++i) connection_->Look(ping);
  EXPECT_FALSE(connection_->deaf());
  // Who is sent something may measure how fast it comes.
  for (int i = 0; i < 1000; ++i) {
    connection_->Sent(16 << 10);
    connection_->Look(ping);
  }
  EXPECT_FALSE(connection_->deaf());
  // Ten a second are allowed, and this takes less than a minute.
  for (int i = 0; i < 700 && !connection_->deaf(); ++i) {
    connection_->Look(ping);
  }
  EXPECT_TRUE(connection_->deaf());
}

TEST_F(ConnectionTest, CallsAndBytesBringFramesWithThem) {
  connection_->Look(absl::string_view("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
  const char window[] = {0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  for (int i = 0; i < 200'000; ++i) {
    connection_->Look(window);
    connection_->Sent(1024);
  }
  EXPECT_FALSE(connection_->deaf());
  for (int i = 0; i < 20'000; ++i) {
    const int stream = 2 * i + 1;
    const char headers[] = {0,
                            0,
                            0,
                            1,
                            4,
                            0,
                            static_cast<char>(stream >> 16),
                            static_cast<char>(stream >> 8),
                            static_cast<char>(stream)};
    connection_->Look(headers);
    connection_->OpenCall();
    connection_->CloseCall();
    for (int j = 0; j < 16; ++j) connection_->Look(window);
  }
  EXPECT_FALSE(connection_->deaf());
}

TEST_F(ConnectionTest, OneWhoseHeadersDoNotEndIsNotListenedTo) {
  connection_->Look(absl::string_view("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
  const char headers[] = {0, 0, 1, 1, 0, 0, 0, 0, 1, 'y'};
  const char more[] = {0, 0, 1, 9, 0, 0, 0, 0, 1, 'y'};
  connection_->Look(headers);
  for (int i = 0; i < 32; ++i) connection_->Look(more);
  EXPECT_FALSE(connection_->deaf());
  connection_->Look(more);
  EXPECT_TRUE(connection_->deaf());
}

TEST_F(ConnectionTest, OneThatIsCutIsNotListenedTo) {
  connection_->Cut();
  EXPECT_TRUE(connection_->deaf());
}

TEST_F(ConnectionTest, WhatHttpAddsDoesNotAddUp) {
  connection_->BeginRead(64 << 10, 0);
  for (int i = 0; i < 100000; ++i) {
    connection_->BeginRead(64 << 10, 0);
    connection_->Received(1200);
    connection_->EndRead(64 << 10, 0, 1000);
  }
  EXPECT_EQ(requests_.held_bytes(), 0);
  EXPECT_EQ(overruns_, 0);
}

}  // namespace
}  // namespace gemmd::rpc
