// Many who wait for room on the device at the same time.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <list>
#include <memory>

#include "absl/time/clock.h"
#include "tests/integration/matmul_stream_fixture.h"
#include "tests/integration/sanitizer.h"

namespace gemmd {
namespace {

using testing::CallStream;
using testing::kMiB;
using testing::MatmulStreamTest;
using testing::RandomProduct;
using testing::Stream;
using testing::StreamHeader;
using testing::TestServer;
using testing::ToStream;

constexpr int kMany = 2000;
// Of a core, what they cost: a few hundredths. When each looked for room every
// 10 ms, 4000 took 1.4 cores.
constexpr double kMostCores = 0.1 * testing::kSanitizerSlowness;

// D of so many MiB.
v1::MatmulRequest OfMebibytes(int64_t mebibytes) {
  return RandomProduct(mebibytes * 256, 1024, 1);
}

class WaitingTest : public MatmulStreamTest {
 protected:
  static TestServer::Options ManyCalls() {
    TestServer::Options options;
    options.limits.max_tensor_bytes = 64 * kMiB;  // One gets 48.
    options.limits.max_calls_per_connection = 2 * kMany;
    return options;
  }
  WaitingTest() : MatmulStreamTest(ManyCalls()) {}
  ~WaitingTest() override {
    for (Waiting& call : waiting_) {
      call.context.TryCancel();
      EXPECT_EQ(call.stream->Finish().error_code(), grpc::CANCELLED)
          << "it did not wait";
    }
  }

  // Begins many that need so much.
  void Wait(const std::shared_ptr<grpc::Channel>& channel, int64_t mebibytes) {
    const Stream header = StreamHeader(OfMebibytes(mebibytes).header());
    const auto stub = v1::MatmulService::NewStub(channel);
    for (int i = 0; i < kMany; ++i) {
      Waiting& call = waiting_.emplace_back();
      call.stream = stub->MatmulStream(&call.context);
      ASSERT_TRUE(call.stream->Write(header));
    }
    // It comes behind them.
    grpc::ClientContext context;
    v1::ServerInfo info;
    ASSERT_TRUE(v1::ServerService::NewStub(channel)
                    ->GetServerInfo(&context, {}, &info)
                    .ok());
  }

  // Of a core, what this process uses once it has come to rest.
  static double Cores() {
    double least = 100;
    for (int i = 0; i < 5 && least > kMostCores; ++i) {
      const std::clock_t before = std::clock();
      absl::SleepFor(absl::Seconds(1));
      const double used = std::clock() - before;
      least = std::min(least, used / CLOCKS_PER_SEC);
    }
    return least;
  }

 private:
  struct Waiting {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<Stream, v1::MatmulStreamResponse>>
        stream;
  };
  std::list<Waiting> waiting_;
};

TEST_F(WaitingTest, ManyWhoWaitForOthersCostLittle) {
  Create(v1::DATA_TYPE_F32, 1024, 10 * 1024);  // 40 MiB.
  Wait(server_.unix_channel(), 30);
  EXPECT_LT(Cores(), kMostCores);
}

TEST_F(WaitingTest, ManyWhoWaitForThemselvesCostLittleAndArePassed) {
  Create(v1::DATA_TYPE_F32, 1024, 10 * 1024);
  Wait(server_.channel(), 20);
  EXPECT_LT(Cores(), kMostCores);
  for (int i = 0; i < 3; ++i) {
    const grpc::Status other =
        CallStream(server_.unix_channel(), ToStream(OfMebibytes(20), 100000))
            .status;
    EXPECT_TRUE(other.ok()) << other.error_message();
  }
}

}  // namespace
}  // namespace gemmd
