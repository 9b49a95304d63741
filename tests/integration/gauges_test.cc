// What metrics say of a daemon at work, by device, queue and budget.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/monitor/collect.h"
#include "tests/integration/busy_server.h"
#include "tests/integration/shared_region.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using testing::OnesTimesTwos;
using testing::TestServer;

// Of "name{label="value"}"; -1 where there is none.
double Value(TestServer& server, const std::string& series) {
  metrics::Exposition values;
  monitor::CollectServer(server.server().runtime(), values);
  monitor::CollectDevices(server.engine(), monitor::Nvml("none"), values);
  monitor::CollectCache(server.engine(), values);
  const std::string text = "\n" + values.Text();
  const std::string line = absl::StrCat("\n", series, " ");
  const size_t at = text.find(line);
  double value = -1;
  if (at == text.npos) return value;
  const size_t from = at + line.size();
  (void)absl::SimpleAtod(text.substr(from, text.find('\n', from) - from),
                         &value);
  return value;
}

void Expect(TestServer& server, const std::string& series, double value) {
  EXPECT_TRUE(testing::Eventually([&] {
    return Value(server, series) == value;
  })) << series
      << " is " << Value(server, series);
}

TEST(GaugesTest, OfADeviceThatWorksAndOneThatDoesNot) {
  testing::BusyServer busy;
  TestServer& server = busy.server();
  Expect(server, R"(gemmd_queue_waiting{device="host:1",queue="products"})", 2);
  Expect(server, R"(gemmd_lanes_running{device="host:1",queue="products"})", 1);
  Expect(server, "gemmd_requests_in_flight", 3);
  const std::pair<const char*, double> others[] = {
      {R"(gemmd_queue_waiting{device="host",queue="products"})", 0},
      {R"(gemmd_queue_waiting{device="host:1",queue="transfers"})", 0},
      {R"(gemmd_lanes_running{device="host:1",queue="transfers"})", 0},
      {R"(gemmd_queue_limit{device="host:1",queue="transfers"})",
       testing::BusyServer::kQueue},
      {R"(gemmd_device_memory_bytes{device="host:1"})",
       testing::BusyServer::kDeviceBytes},
      {R"(gemmd_tensor_bytes{device="host"})", 0},
      {R"(gemmd_device_info{device="host:1",product="CPU",driver=""})", 1},
      {"gemmd_tensors", 1}};
  for (const auto& [series, value] : others) Expect(server, series, value);
  EXPECT_GE(Value(server, R"(gemmd_tensor_bytes{device="host:1"})"),
            testing::BusyServer::kTensorBytes);
  busy.End();
  Expect(server, R"(gemmd_shapes_known{device="host:1"})", 2);
  Expect(server, R"(gemmd_kernels_loaded{device="host:1"})", 1);
  Expect(server, R"(gemmd_kernels_loaded{device="host"})", 0);
  const double seconds =
      Value(server, R"(gemmd_device_busy_seconds_total{device="host:1",)"
                    R"(queue="products"})");
  EXPECT_GT(seconds, 0);
  EXPECT_LT(seconds, 300);  // And not so many microseconds.
}

TEST(GaugesTest, OfRoomAndWhoWaitsForIt) {
  TestServer server({.limits = {.max_message_bytes = 100 << 10,
                                .max_in_flight_bytes = 100 << 10,
                                .max_connections = 77,
                                .max_region_bytes = 4 << 20}});
  server.cache().Hold(true);
  const auto multiply = [&] {
    grpc::ClientContext context;
    context.AddMetadata("gemmd-message-bytes", "90000");
    v1::MatmulResponse response;
    return v1::MatmulService::NewStub(server.channel())
        ->Matmul(&context, OnesTimesTwos(200, 1, 200), &response)
        .ok();
  };
  auto first = std::async(std::launch::async, multiply);
  server.cache().WaitForGets(1);
  auto second = std::async(std::launch::async, multiply);
  Expect(server, R"(gemmd_budget_waiting{budget="requests"})", 1);
  Expect(server, "gemmd_compile_waiting", 1);
  EXPECT_GT(Value(server, R"(gemmd_budget_held_bytes{budget="requests"})"),
            200 * 201 * 2);
  EXPECT_EQ(Value(server, R"(gemmd_budget_held_bytes{budget="responses"})"), 0);
  EXPECT_EQ(Value(server, R"(gemmd_budget_limit_bytes{budget="requests"})"),
            100 << 10);
  EXPECT_EQ(Value(server, "gemmd_connections_limit"), 77);
  server.cache().Hold(false);
  EXPECT_TRUE(first.get() && second.get());
  const testing::SharedRegion region(server);
  EXPECT_EQ(Value(server, "gemmd_region_bytes"), testing::kRegionBytes);
  EXPECT_EQ(Value(server, "gemmd_region_limit_bytes"), 4 << 20);
}

TEST(GaugesTest, ADaemonThatDrainsDoesNotServe) {
  TestServer server;
  EXPECT_EQ(Value(server, "gemmd_serving"), 1);
  server.server().Drain();
  EXPECT_EQ(Value(server, "gemmd_serving"), 0);
}

}  // namespace
}  // namespace gemmd
