// Clients that hold up the making of their regions: nobody else waits.
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "tests/integration/eventually.h"
#include "tests/integration/locked_memory.h"
#include "tests/integration/shared_region.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using grpc::StatusCode;
using testing::GivenMemory;
using testing::Giver;
using testing::LockedMemory;
using testing::TestServer;

class LockedRegionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = LockedMemory::Missing();
    if (!missing.empty()) GTEST_SKIP() << missing;
  }

  // Offers the memory and has a region made of it.
  StatusCode Create(const GivenMemory& memory, absl::Duration time) {
    Giver giver(testing::SharedRegion::SocketOf(server_));
    v1::CreateRegionRequest request;
    request.set_handle(giver.Give(memory));
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + time));
    v1::RegionInfo info;
    return v1::RegionService::NewStub(server_.unix_channel())
        ->CreateRegion(&context, request, &info)
        .error_code();
  }

  TestServer server_{{.drain_timeout = absl::Milliseconds(100)}};
};

TEST_F(LockedRegionsTest, WhoKeepsHisMemoryLockedWaitsAlone) {
  const std::vector<LockedMemory> locked(4);
  for (const LockedMemory& one : locked) {
    EXPECT_EQ(Create(one.memory(), absl::Milliseconds(200)),
              StatusCode::DEADLINE_EXCEEDED);
  }
  EXPECT_EQ(Create(GivenMemory(4096), absl::Seconds(30)), StatusCode::OK);
  EXPECT_TRUE(testing::Eventually(
      [this] { return server_.server().runtime().places == 0; }));
}

TEST_F(LockedRegionsTest, ADrainWaitsForNone) {
  std::future<StatusCode> call;
  std::future<bool> drain;
  {
    const LockedMemory locked;
    call = std::async(std::launch::async, [&] {
      return Create(locked.memory(), absl::Minutes(2));
    });
    ASSERT_TRUE(testing::Eventually(
        [this] { return server_.server().runtime().places == 1; }));
    drain = std::async(std::launch::async,
                       [this] { return server_.server().Drain(); });
    EXPECT_EQ(drain.wait_for(std::chrono::seconds(30)),
              std::future_status::ready);
    EXPECT_EQ(call.wait_for(std::chrono::seconds(30)),
              std::future_status::ready);
  }
  EXPECT_TRUE(drain.get());
  EXPECT_NE(call.get(), StatusCode::OK);
}

}  // namespace
}  // namespace gemmd
