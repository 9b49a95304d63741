// Messages that never become complete, beside calls that are none of their
// business.
#include <gtest/gtest.h>

#include <string>

#include "absl/time/clock.h"
#include "tests/integration/eventually.h"
#include "tests/integration/raw_http2.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using testing::Eventually;
using testing::OnesTimesTwos;
using testing::RawHttp2;
using testing::TestServer;

constexpr char kMatmul[] = "/gemmd.v1.MatmulService/Matmul";
constexpr int kBytes = 1 << 20;

class HalfMessages : public ::testing::Test {
 protected:
  bool Ended(int64_t calls) {
    return Eventually([&] {
      client_.Read(absl::Milliseconds(10));
      return client_.ended() >= calls;
    });
  }
  // Half of a message of `kBytes`, which the daemon reads.
  uint32_t BeginMessage(const std::string& timeout = "") {
    const uint32_t stream = client_.Open(kMatmul, timeout);
    client_.SendPrefix(stream, kBytes);
    EXPECT_EQ(client_.Send(stream, std::string(kBytes / 2, 'h'), false),
              kBytes / 2);
    return stream;
  }
  void Multiply() {
    const std::string request = OnesTimesTwos(2, 2, 50'000).SerializeAsString();
    const uint32_t stream = client_.Open(kMatmul);
    client_.SendPrefix(stream, static_cast<uint32_t>(request.size()));
    client_.Send(stream, request, true);
  }
  v1::Statistics Statistics() {
    grpc::ClientContext context;
    v1::Statistics statistics;
    EXPECT_TRUE(v1::ServerService::NewStub(server_.channel())
                    ->GetStatistics(&context, {}, &statistics)
                    .ok());
    return statistics;
  }
  // The products of the test, of which so many failed.
  void ExpectProducts(int64_t all, int64_t failed) {
    EXPECT_TRUE(Eventually([&] { return Statistics().requests() >= all; }));
    EXPECT_EQ(Statistics().requests(), all);
    EXPECT_EQ(Statistics().failed(), failed);
  }

  // Four of them are more than one call may read.
  static TestServer::Options Small() {
    TestServer::Options options;
    options.limits.max_message_bytes = kBytes;
    return options;
  }

  TestServer server_{Small()};
  RawHttp2 client_{server_.address()};
};

// A client whose deadline passes is still sending when the daemon has ended the
// call.
TEST_F(HalfMessages, WhatComesForACallThatWasEndedIsNoneOfTheNext) {
  for (int i = 0; i < 5; ++i) {
    const uint32_t late = BeginMessage("1S");
    ASSERT_TRUE(Ended(2 * i + 1));
    EXPECT_EQ(client_.SendLate(late, std::string(kBytes / 2 - 1, 'h')),
              kBytes / 2 - 1);
    Multiply();
    ASSERT_TRUE(Ended(2 * i + 2));
  }
  ExpectProducts(10, 5);
}

TEST_F(HalfMessages, CallsThatAreTakenBackAreNoBurdenOfOneThatReads) {
  BeginMessage();
  for (int i = 0; i < 20; ++i) client_.Reset(BeginMessage());
  Multiply();
  ASSERT_TRUE(Ended(1));
  // One reads, and those that were taken back have been counted as lost.
  ExpectProducts(21, 20);
  EXPECT_EQ(client_.ended(), 1);
}

}  // namespace
}  // namespace gemmd
