// What one client can take from the daemon and from other clients: each test
// has a client that takes too much, and looks at what others get meanwhile.
// What a call is told at its limits: server_limits_test.cc.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/abusers.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/raw_call.h"
#include "tests/integration/raw_http2.h"
#include "tests/integration/sanitizer.h"
#include "tests/integration/silent_peer.h"
#include "tests/integration/stream_call.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using testing::Abuser;
using testing::Connect;
using testing::DaemonProcess;
using testing::OnesTimesTwos;
using testing::RawHttp2;

constexpr int64_t kMiB = 1 << 20;
// Longer than any limit of these tests, shorter than a test's time-out.
constexpr absl::Duration kPatience =
    absl::Seconds(60 * testing::kSanitizerSlowness);

// A product whose answer is known, with its size announced.
grpc::Status Multiply(const std::shared_ptr<grpc::Channel>& channel, int64_t m,
                      int64_t k, absl::Duration timeout = kPatience) {
  const v1::MatmulRequest request = OnesTimesTwos(m, 1, k);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  context.AddMetadata("gemmd-message-bytes",
                      std::to_string(request.ByteSizeLong()));
  v1::MatmulResponse response;
  const auto stub = v1::MatmulService::NewStub(channel);
  const grpc::Status status = stub->Matmul(&context, request, &response);
  if (!status.ok()) return status;
  std::string expected;
  const float sum = 2.0f * static_cast<float>(k);
  for (int64_t i = 0; i < m; ++i) {
    expected.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  }
  return response.d() == expected
             ? grpc::Status::OK
             : grpc::Status(grpc::DATA_LOSS, "a wrong product");
}

// "VmRSS" or "VmHWM", in bytes.
int64_t MemoryOf(const DaemonProcess& daemon, const std::string& key) {
  std::ifstream file("/proc/" + std::to_string(daemon.pid()) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key + ":", 0) == 0) {
      return std::stoll(line.substr(key.size() + 1)) * 1024;
    }
  }
  return -1;
}

// The daemon on the host device, for which a wrong or a late answer to an
// honest client is a failure.
class LimitsOfADaemon : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> flags) {
    flags.push_back("--device=host");
    // The default; in a sanitizer all take their turns more slowly.
    flags.push_back("--max-wait=" + absl::FormatDuration(kPatience));
    daemon_ = std::make_unique<DaemonProcess>(flags);
    ASSERT_NE(daemon_->Connect(), nullptr) << daemon_->Log();
    const grpc::Status first = Multiply(Connect(daemon_->address()), 2, 2);
    ASSERT_TRUE(first.ok()) << first.error_message();
    calm_bytes_ = MemoryOf(*daemon_, "VmRSS");
  }

  // An honest client's product, again and again for a while.
  void ExpectService(absl::Duration time) {
    const auto channel = Connect(daemon_->address());
    const absl::Time end = absl::Now() + time;
    do {
      const absl::Time start = absl::Now();
      const grpc::Status status = Multiply(channel, 2, 1000);
      ASSERT_TRUE(status.ok())
          << status.error_code() << " " << status.error_message() << "\n"
          << daemon_->Log().substr(0, 4000);
      EXPECT_LT(absl::Now() - start,
                testing::kSanitizerSlowness * absl::Seconds(5));
      absl::SleepFor(absl::Milliseconds(20));
    } while (absl::Now() < end);
  }
  int64_t grown_bytes() const {
    return MemoryOf(*daemon_, "VmHWM") - calm_bytes_ - testing::kSanitizerBytes;
  }

  std::unique_ptr<DaemonProcess> daemon_;
  int64_t calm_bytes_ = 0;
};

TEST_F(LimitsOfADaemon, HonestLoadBeyondTheBudgetWaitsItsTurn) {
  Start({"--max-message-bytes=16MiB", "--max-inflight-bytes=16MiB"});
  std::vector<std::future<grpc::Status>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::async(std::launch::async, [&] {
      const auto channel = Connect(daemon_->address());
      for (int round = 0; round < 3; round += testing::kSanitizerSlowness) {
        // 12 MiB: one fits at a time.
        const grpc::Status status = Multiply(channel, 2, 2 * kMiB);
        if (!status.ok()) return status;
      }
      return grpc::Status::OK;
    }));
  }
  for (auto& client : clients) {
    const grpc::Status status = client.get();
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  EXPECT_LT(grown_bytes(), 150 * kMiB);
  ExpectService(absl::ZeroDuration());
}

// 600 MiB of operands at a time, of which the device has room for a tenth; with
// a sanitizer, that multiplies 25 times as slowly, a quarter of that.
TEST_F(LimitsOfADaemon, ManyStreamsHoldNoMoreThanThereIsRoomFor) {
  Start({"--max-message-bytes=2MiB", "--max-inflight-bytes=16MiB",
         "--max-tensor-bytes=64MiB"});
  const v1::MatmulRequest request = OnesTimesTwos(2, 1, kMiB / 2);
  const auto messages = testing::ToStream(request, kMiB / 4);
  std::vector<std::shared_ptr<grpc::Channel>> channels(20);
  for (auto& channel : channels) channel = Connect(daemon_->address());
  std::vector<std::future<testing::StreamAnswer>> answers;
  for (int i = 0; i < 200 / testing::kSanitizerSlowness; ++i) {
    answers.push_back(std::async(std::launch::async, [&, i] {
      return testing::CallStream(channels[i % 20], messages, kPatience);
    }));
  }
  const std::string sum("\x00\x00\x80\x49\x00\x00\x80\x49", 8);  // 2^20.
  for (auto& answer : answers) {
    const testing::StreamAnswer one = answer.get();
    EXPECT_TRUE(one.status.ok()) << one.status.error_message();
    EXPECT_EQ(one.response.d(), sum);
  }
  EXPECT_LT(grown_bytes(), 200 * kMiB);
  ExpectService(absl::ZeroDuration());
}

TEST_F(LimitsOfADaemon, AnswersThatNobodyReadsAreBounded) {
  Start({"--max-message-bytes=128MiB", "--max-inflight-bytes=128MiB"});
  {
    const Abuser one(testing::NeverRead, daemon_->address());
    const Abuser two(testing::NeverRead, daemon_->address());
    ExpectService(absl::Seconds(4));
  }
  EXPECT_LT(grown_bytes(), 300 * kMiB);
}

// 3 numbers, as far apart as they may be, as messages of 16 MiB.
TEST_F(LimitsOfADaemon, PaddingTakesNoMemory) {
  Start({"--max-message-bytes=16MiB", "--max-inflight-bytes=16MiB"});
  const auto channel = Connect(daemon_->address());
  const auto tensors = v1::TensorService::NewStub(channel);
  v1::CreateTensorRequest create;
  create.set_dtype(v1::DATA_TYPE_F32);
  create.set_rows(3);
  create.set_columns(1);
  v1::TensorInfo tensor;
  grpc::ClientContext creating;
  ASSERT_TRUE(tensors->CreateTensor(&creating, create, &tensor).ok());
  v1::DownloadTensorRequest request;
  request.set_handle(tensor.handle());
  request.set_chunk_bytes(16 << 20);
  request.mutable_layout()->set_leading_dimension((32 << 20) / 4 - 1);
  {
    std::deque<grpc::ClientContext> contexts(64);
    std::vector<std::unique_ptr<grpc::ClientReader<v1::DownloadTensorResponse>>>
        unread;
    for (grpc::ClientContext& context : contexts) {
      unread.push_back(tensors->DownloadTensor(&context, request));
    }
    ExpectService(absl::Seconds(2));
    v1::DownloadTensorResponse part;
    ASSERT_TRUE(unread[0]->Read(&part));
    ASSERT_TRUE(unread[0]->Read(&part));
    EXPECT_TRUE(part.data() == std::string(16 << 20, '\0'));
    for (grpc::ClientContext& context : contexts) context.TryCancel();
    for (auto& reader : unread) reader->Finish();
  }
  EXPECT_LT(grown_bytes(), 150 * kMiB);
}

// A byte of headers each, by a name that was sent once.
TEST_F(LimitsOfADaemon, HeadersOfOneByteAreBounded) {
  Start({});
  const auto literal = [](const std::string& name, const std::string& value) {
    return std::string(1, '\0') + static_cast<char>(name.size()) + name +
           static_cast<char>(value.size()) + value;
  };
  const std::string call =
      literal(":method", "POST") + literal(":scheme", "http") +
      literal(":path", "/gemmd.v1.MatmulService/Matmul") +
      literal(":authority", "x") + literal("te", "trailers") +
      literal("content-type", "application/grpc");
  const std::string learnt("\x40\1a\0", 4);
  {
    RawHttp2 client(daemon_->address());
    for (uint32_t stream = 1; client.alive() && stream < 500; stream += 2) {
      client.Write(RawHttp2::FrameOf(1, 0, stream, call + learnt));
      for (int i = 0; i < 3; ++i) {
        client.Write(
            RawHttp2::FrameOf(9, 0, stream, std::string(16384, '\xbe')));
      }
      client.Write(RawHttp2::FrameOf(9, 4, stream, ""));
    }
    ExpectService(absl::Seconds(2));
  }
  EXPECT_LT(grown_bytes(), 100 * kMiB);
}

TEST_F(LimitsOfADaemon, HalfSentMessagesAreBounded) {
  Start({"--max-message-bytes=1MiB", "--max-inflight-bytes=8MiB"});
  {
    const Abuser one(testing::SendHalf, daemon_->address());
    const Abuser two(testing::SendHalf, daemon_->address());
    ExpectService(absl::Seconds(3));
  }
  EXPECT_LT(grown_bytes(), 100 * kMiB);
}

TEST_F(LimitsOfADaemon, BombsAreNotOpened) {
  Start({});
  {
    const Abuser one(testing::SendBombs, daemon_->address());
    ExpectService(absl::Seconds(3));
  }
  EXPECT_LT(grown_bytes(), 150 * kMiB);
}

TEST_F(LimitsOfADaemon, SilentCallsLockNobodyOut) {
  Start({});
  const Abuser one(testing::KeepSilent, daemon_->address());
  absl::SleepFor(absl::Seconds(1));
  ExpectService(absl::Seconds(3));
}

TEST_F(LimitsOfADaemon, CallsThatAreTakenBackAtOnceAreBounded) {
  Start({"--max-calls=512"});
  {
    const Abuser one(testing::StormResets, daemon_->address());
    const Abuser two(testing::StormResets, daemon_->address());
    ExpectService(absl::Seconds(4));
  }
  EXPECT_LT(grown_bytes(), 200 * kMiB);
}

// gRPC 1.51 would read headers from their start with every frame of them: half
// a minute for what these send.
TEST_F(LimitsOfADaemon, FramesThatBringNothingHarmNobody) {
  Start({});
  std::vector<std::unique_ptr<Abuser>> abusers;
  for (int i = 0; i < 4; ++i) {
    abusers.push_back(
        std::make_unique<Abuser>(testing::FloodFrames, daemon_->address()));
  }
  ExpectService(absl::Seconds(5));
  abusers.clear();
  // A ping beyond those that it permits would make it an error of kilobytes.
  EXPECT_LT(grown_bytes(), 128 * kMiB);
}

// Each takes a slice of gRPC's, many times the byte that it brings.
TEST_F(LimitsOfADaemon, AMessageDoesNotComeByteByByte) {
  Start({});
  RawHttp2 client(daemon_->address());
  const uint32_t stream = client.Open("/gemmd.v1.MatmulService/Matmul");
  client.SendPrefix(stream, 1 << 30);
  std::string bytes;
  for (int i = 0; i < 1000; ++i) {
    bytes += RawHttp2::FrameOf(0, 0, stream, "x");
  }
  // Within the window of the stream.
  for (int i = 0; i < 60 && client.alive(); ++i) {
    client.Write(bytes);
    client.Read(absl::Milliseconds(1));
  }
  client.Read(absl::Seconds(5));
  EXPECT_FALSE(client.alive());
}

TEST_F(LimitsOfADaemon, PaddedUploadsAreBounded) {
  Start({"--max-message-bytes=1MiB", "--max-inflight-bytes=8MiB"});
  const Abuser abuser(testing::PadUploads, daemon_->address());
  ExpectService(absl::Seconds(3));
  EXPECT_LT(grown_bytes(), 100 * kMiB);
}

// gRPC hands calls out in the order in which they came.
TEST_F(LimitsOfADaemon, OneCallDoesNotWaitForTheManyOfOthers) {
  Start({"--network-threads=1"});
  const auto channel = Connect(daemon_->address());
  const auto stub = v1::ServerService::NewStub(channel);
  const auto products = [&] {
    grpc::ClientContext context;
    v1::Statistics statistics;
    const grpc::Status status = stub->GetStatistics(&context, {}, &statistics);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return statistics.requests();
  };
  const int64_t calm = products();
  const Abuser abuser(testing::CrowdCalls, daemon_->address());
  while (products() < calm + 2000) absl::SleepFor(absl::Milliseconds(10));
  // Of others, 1600 of which are on the way, that are answered meanwhile.
  std::vector<int64_t> between;
  for (int i = 0; i < 50; ++i) {
    const int64_t before = products();
    between.push_back(products() - before);
  }
  std::ranges::nth_element(between, between.begin() + 25);
  EXPECT_LT(between[25], 400);
}

TEST_F(LimitsOfADaemon, ResetsAndStalledUploadsHarmNobody) {
  Start({"--max-message-bytes=4MiB", "--max-inflight-bytes=8MiB"});
  const Abuser one(testing::StormResets, daemon_->address());
  const Abuser two(testing::StallUploads, daemon_->address());
  ExpectService(absl::Seconds(3));
}

TEST_F(LimitsOfADaemon, ListensAgainAfterItWasOutOfDescriptors) {
  Start({});
  const rlimit few = {.rlim_cur = 100, .rlim_max = 100};
  ASSERT_EQ(prlimit(daemon_->pid(), RLIMIT_NOFILE, &few, nullptr), 0);
  {
    const Abuser one(testing::FloodConnections, daemon_->address());
    absl::SleepFor(absl::Seconds(2));
  }
  // The daemon sees the ends of the flood's connections one after the other.
  const absl::Time end = absl::Now() + absl::Seconds(10);
  while (!Multiply(Connect(daemon_->address()), 2, 2).ok() &&
         absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(50));
  }
  ExpectService(absl::ZeroDuration());
}

// Who comes last has the place of one that is idle: connections do not take the
// last descriptor, though there are few. Each takes two.
TEST_F(LimitsOfADaemon, IdleConnectionsLeaveDescriptorsToOthers) {
  for (const rlim_t count : {56, 57}) {
    Start({"--network-threads=2"});  // Each has descriptors of its own.
    const rlimit few = {.rlim_cur = count, .rlim_max = count};
    ASSERT_EQ(prlimit(daemon_->pid(), RLIMIT_NOFILE, &few, nullptr), 0);
    std::deque<testing::SilentPeer> idle;
    for (int i = 0; i < 40; ++i) idle.emplace_back(daemon_->address());
    absl::SleepFor(absl::Milliseconds(500));
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(Multiply(Connect(daemon_->address()), 2, 2).ok()) << count;
    }
  }
}

TEST_F(LimitsOfADaemon, ConnectionsThatWereEndedDoNotPileUp) {
  Start({"--max-connections=64", "--max-calls=512"});
  const std::string files = "/proc/" + std::to_string(daemon_->pid()) + "/fd";
  int64_t most = 0;
  {
    const Abuser one(testing::FloodConnections, daemon_->address());
    const Abuser two(testing::KeepSilent, daemon_->address());
    const Abuser three(testing::StormResets, daemon_->address());
    const Abuser four(testing::StallUploads, daemon_->address());
    const absl::Time end = absl::Now() + absl::Seconds(4);
    while (absl::Now() < end) {
      most = std::max<int64_t>(
          most, std::distance(std::filesystem::directory_iterator(files), {}));
      absl::SleepFor(absl::Milliseconds(20));
    }
  }
  // Two each, and one of those that were ended.
  EXPECT_LT(most, 2 * 64 + 64 + 50);
  // Not beside them: of so many that come, one that has not called anything
  // yet is closed. Who was there before is served, as the soak shows.
  ExpectService(absl::ZeroDuration());
}

}  // namespace
}  // namespace gemmd
