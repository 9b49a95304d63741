// What the status page is told: JSON of StatusJson.
#include "service/monitor/status.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/integration/busy_server.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using testing::OnesTimesTwos;
using testing::TestServer;
using Json = nlohmann::json;

constexpr char kMatmul[] = "/gemmd.v1.MatmulService/Matmul";

Json Status(TestServer& server) {
  return Json::parse(
      monitor::StatusJson(server.server().runtime(), server.engine()));
}

grpc::StatusCode Multiply(TestServer& server, const std::string& device,
                          int64_t m = 2) {
  v1::MatmulRequest request = OnesTimesTwos(m, 2, 2);
  request.mutable_header()->set_device(device);
  return server.CallRaw(kMatmul, request.SerializeAsString()).error_code();
}

TEST(StatusTest, SaysWhatEachDeviceDoesAndHolds) {
  testing::BusyServer busy;
  TestServer& server = busy.server();
  EXPECT_TRUE(testing::Eventually([&] {
    return Status(server)["devices"][1]["products"] ==
           Json({{"waiting", 2}, {"limit", 7}, {"running", 1}});
  }));
  const Json status = Status(server);
  const Json none = {{"waiting", 0}, {"limit", 7}, {"running", 0}};
  EXPECT_EQ(status["devices"][0]["products"], none);
  EXPECT_EQ(status["devices"][1]["transfers"], none);
  EXPECT_EQ(status["devices"][0]["tensor_bytes"], 0);
  EXPECT_GE(status["devices"][1]["tensor_bytes"],
            testing::BusyServer::kTensorBytes);
  EXPECT_EQ(status["in_flight"], 3);
  EXPECT_EQ(status["serving"], true);
  EXPECT_GT(status["uptime_s"], 0);
  busy.End();
}

TEST(StatusTest, ADeviceThatIsLostIsDown) {
  TestServer server({.devices = 2});
  server.engine().MarkFailed(1, "it was dropped");
  const Json devices = Status(server)["devices"];
  EXPECT_EQ(devices[0]["up"], true);
  EXPECT_GT(devices[0]["free_bytes"], 0);
  EXPECT_EQ(devices[1]["up"], false);
  EXPECT_EQ(devices[1]["free_bytes"], 0);
}

TEST(StatusTest, CallsAndShapesAreCounted) {
  constexpr absl::Duration kExecute = absl::Milliseconds(20);
  const auto hooks = std::make_shared<testing::Hooks>();
  hooks->multiply = [=](const auto&, const auto&) {
    absl::SleepFor(kExecute);
    return absl::OkStatus();
  };
  TestServer server({.hooks = hooks});
  for (const int64_t m : {2, 2, 3}) {
    ASSERT_EQ(Multiply(server, "", m), grpc::OK);
  }
  EXPECT_EQ(Multiply(server, "none"), grpc::INVALID_ARGUMENT);
  const Json calls = {
      {{"method", kMatmul + 1}, {"code", "INVALID_ARGUMENT"}, {"count", 1}},
      {{"method", kMatmul + 1}, {"code", "OK"}, {"count", 3}}};
  EXPECT_TRUE(testing::Eventually([&] {
    Json told = Status(server)["calls"];
    return told.size() == 2 &&
           std::is_permutation(told.begin(), told.end(), calls.begin());
  })) << Status(server)["calls"];
  const Json shapes = Status(server)["shapes"];
  ASSERT_EQ(shapes.size(), 2u);
  EXPECT_EQ(shapes[0]["runs"], 2);
  EXPECT_GE(shapes[0]["execute_s"], 2 * absl::ToDoubleSeconds(kExecute));
  EXPECT_LT(shapes[0]["execute_s"], 10);  // And not so many milliseconds.
  EXPECT_EQ(shapes[0]["operations"], 2 * 2 * 2 * 2);
  EXPECT_EQ(shapes[1]["runs"], 1);
}

// Nothing that a client says is obeyed by a terminal, or ends the JSON.
TEST(StatusTest, WhatClientsSaidIsText) {
  TestServer server;
  server.CallRaw("/a\"\x1b[31m\xff/Call", "");
  EXPECT_TRUE(
      testing::Eventually([&] { return !Status(server)["errors"].empty(); }));
  const Json error = Status(server)["errors"][0];
  EXPECT_EQ(error["method"], "/a\"\\x1b[31m\\xff/Call");
  EXPECT_EQ(error["code"], "UNIMPLEMENTED");
}

TEST(StatusTest, TiersOfTheCacheHaveTheirNumbers) {
  TestServer server;
  jit::CacheStatistics statistics;
  statistics.tiers.push_back({.name = "disk",
                              .hits = 11,
                              .misses = 12,
                              .errors = 13,
                              .bytes_loaded = 14,
                              .bytes_stored = 15});
  server.cache().Tell(statistics);
  EXPECT_EQ(Status(server)["cache"], Json::array({{{"name", "disk"},
                                                   {"hits", 11},
                                                   {"misses", 12},
                                                   {"errors", 13},
                                                   {"bytes_loaded", 14},
                                                   {"bytes_stored", 15}}}));
}

TEST(StatusTest, ADaemonThatDrainsDoesNotServe) {
  TestServer server;
  EXPECT_EQ(Status(server)["serving"], true);
  server.server().Drain();
  EXPECT_EQ(Status(server)["serving"], false);
}

TEST(StatusTest, CompilesThatWaitAreTold) {
  TestServer server;
  server.cache().Hold(true);
  auto call =
      std::async(std::launch::async, [&] { return Multiply(server, ""); });
  server.cache().WaitForGets(1);
  EXPECT_EQ(Status(server)["compile_waiting"], 1);
  server.cache().Hold(false);
  EXPECT_EQ(call.get(), grpc::OK);
  EXPECT_EQ(Status(server)["compile_waiting"], 0);
}

}  // namespace
}  // namespace gemmd
