// The trace of a client comes back to it, and is in the log.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/eventually.h"
#include "tests/integration/raw_call.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using testing::DaemonProcess;
using testing::OnesTimesTwos;
using testing::TestServer;

constexpr char kTraceId[] = "0af7651916cd43dd8448eb211c80319c";
constexpr char kHeader[] =
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

// The traces that an answer to a product came with.
std::vector<std::string> TracesOfAnswer(
    const std::shared_ptr<grpc::Channel>& channel,
    const std::vector<std::string>& sent, int64_t m) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
  for (const std::string& header : sent) {
    context.AddMetadata("traceparent", header);
  }
  v1::MatmulResponse response;
  const grpc::Status status = v1::MatmulService::NewStub(channel)->Matmul(
      &context, OnesTimesTwos(m, 2, 2), &response);
  EXPECT_EQ(status.ok(), m >= 0);
  std::vector<std::string> traces;
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto [first, last] = metadata.equal_range("traceparent");
  for (auto it = first; it != last; ++it) {
    traces.emplace_back(it->second.data(), it->second.size());
  }
  return traces;
}

TEST(TraceTest, ComesBackWithAnswersAndWithErrors) {
  TestServer server;
  const std::vector<std::string> expected = {kHeader};
  EXPECT_EQ(TracesOfAnswer(server.channel(), {kHeader}, 2), expected);
  EXPECT_EQ(TracesOfAnswer(server.channel(), {kHeader}, -2), expected);
}

TEST(TraceTest, WhatIsNoTraceDoesNot) {
  TestServer server;
  const std::vector<std::string> none;
  EXPECT_EQ(TracesOfAnswer(server.channel(), {}, 2), none);
  EXPECT_EQ(TracesOfAnswer(server.channel(), {"\"forged"}, 2), none);
  EXPECT_EQ(TracesOfAnswer(server.channel(), {kHeader, kHeader}, 2), none);
}

// The object that each line of the log is.
std::vector<google::protobuf::Struct> Lines(const std::string& log) {
  std::vector<google::protobuf::Struct> lines;
  for (const auto line : absl::StrSplit(log, '\n', absl::SkipEmpty())) {
    const auto status = google::protobuf::util::JsonStringToMessage(
        std::string(line), &lines.emplace_back());
    EXPECT_TRUE(status.ok()) << line;
  }
  return lines;
}

std::string Text(const google::protobuf::Struct& line, const char* name) {
  const auto found = line.fields().find(name);
  return found == line.fields().end() ? "" : found->second.string_value();
}

TEST(TraceTest, AJsonLogHasItOnTheLineOfTheFailure) {
  DaemonProcess daemon({"--device=host", "--nvrtc=none", "--log-format=json"});
  const auto channel = daemon.Connect();
  ASSERT_NE(channel, nullptr) << daemon.Log();
  TracesOfAnswer(channel, {kHeader}, -2);
  TracesOfAnswer(channel, {}, -2);
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
  int failures = 0;
  for (const auto& line : Lines(daemon.Log())) {
    EXPECT_NE(Text(line, "event"), "");
    EXPECT_NE(Text(line, "level"), "");
    EXPECT_EQ(Text(line, "time").size(), 24u);
    if (Text(line, "event") != "request_failed") continue;
    EXPECT_EQ(Text(line, "trace_id"), failures++ == 0 ? kTraceId : "");
    EXPECT_EQ(Text(line, "code"), "INVALID_ARGUMENT");
    EXPECT_GT(line.fields().at("us").number_value(), 0);
  }
  EXPECT_EQ(failures, 2);
}

TEST(TraceTest, ClientsCannotForgeLinesOrFieldsOfAJsonLog) {
  DaemonProcess daemon({"--device=host", "--nvrtc=none", "--log-format=json"});
  const auto channel = daemon.Connect();
  ASSERT_NE(channel, nullptr) << daemon.Log();
  const std::vector<std::string> hostile = {
      R"(/a","level":"error","event":"forged)", "/a\\", "/a\\\",\"x\":\"",
      "/{}[]", "/" + std::string(5000, '"')};
  for (const std::string& method : hostile) {
    EXPECT_FALSE(testing::CallRaw(channel, method, "", absl::Seconds(60)).ok());
  }
  v1::DescribeTensorRequest request;
  request.set_handle("01234567890123456789012345\"\\\n\x1b\x7f,");
  testing::CallRaw(channel, "/gemmd.v1.TensorService/DescribeTensor",
                   request.SerializeAsString(), absl::Seconds(60));
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(), 0);
  std::vector<std::string> methods;
  for (const auto& line : Lines(daemon.Log())) {
    EXPECT_NE(Text(line, "event"), "forged");
    EXPECT_FALSE(line.fields().contains("x"));
    if (Text(line, "event") == "request_failed") {
      methods.push_back(Text(line, "method"));
    }
  }
  ASSERT_EQ(methods.size(), hostile.size() + 1);
  EXPECT_EQ(methods[0], hostile[0]);
}

}  // namespace
}  // namespace gemmd
