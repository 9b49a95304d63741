// What clients are told about when a refused call may be tried again.
#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <string>

#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using testing::OnesTimesTwos;
using testing::TestServer;

struct Answer {
  grpc::Status status;
  std::optional<std::string> pushback;
};

Answer Multiply(TestServer& server, int64_t m, int64_t k = 2) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(60));
  v1::MatmulResponse response;
  Answer answer;
  answer.status = v1::MatmulService::NewStub(server.channel())
                      ->Matmul(&context, OnesTimesTwos(m, 1, k), &response);
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find("grpc-retry-pushback-ms");
  if (found != trailers.end()) {
    answer.pushback = std::string(found->second.data(), found->second.size());
  }
  return answer;
}

TEST(TryAgain, WhatEndsByItselfMayBeTriedAgain) {
  TestServer server({.preparer = {.max_waiting = 1}});
  server.cache().Hold(true);
  auto first =
      std::async(std::launch::async, [&] { return Multiply(server, 1); });
  server.cache().WaitForGets(1);
  const Answer refused = Multiply(server, 1);
  EXPECT_EQ(refused.status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.pushback, "10");  // What waits is short.
  server.cache().Hold(false);
  EXPECT_EQ(first.get().pushback, std::nullopt);
}

TEST(TryAgain, WhatIsTooLargeWillBeTooLarge) {
  TestServer::Options options;
  options.limits.max_message_bytes = 1 << 20;
  TestServer server(options);
  const Answer refused = Multiply(server, 1 << 20, 0);
  EXPECT_EQ(refused.status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.pushback, "-1");
}

TEST(TryAgain, OthersSayNothing) {
  TestServer server;
  EXPECT_EQ(Multiply(server, 1).pushback, std::nullopt);
  const Answer wrong = Multiply(server, -1);
  EXPECT_EQ(wrong.status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(wrong.pushback, std::nullopt);
}

}  // namespace
}  // namespace gemmd
