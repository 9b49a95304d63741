// How the daemon ends: within its limits, whatever hangs.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "jit/base/file.h"
#include "service/models/copy.h"
#include "service/models/model_file.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/eventually.h"
#include "tests/integration/raw_http2.h"
#include "tests/integration/silent_peer.h"
#include "tests/integration/stream_call.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using testing::CpuTicks;
using testing::DaemonProcess;
using testing::Eventually;
using ::testing::HasSubstr;
using testing::Lives;
using ::testing::Not;
using testing::OnesTimesTwos;
using testing::RawHttp2;

constexpr char kNvrtc[] = "--nvrtc=" GEMMD_TEST_NVRTC;
// More than a drain without a limit of its own would need on any machine, less
// than what hangs for ever.
constexpr absl::Duration kSoon = absl::Seconds(25);

// Calls in the background; the answers do not matter.
class Caller {
 public:
  explicit Caller(std::shared_ptr<grpc::Channel> channel)
      : channel_(std::move(channel)) {}

  std::future<grpc::Status> Multiply(v1::MatmulRequest request) {
    return std::async(std::launch::async, [this, request = std::move(request)] {
      auto stub = v1::MatmulService::NewStub(channel_);
      grpc::ClientContext context;
      context.set_wait_for_ready(true);
      v1::MatmulResponse response;
      return stub->Matmul(&context, request, &response);
    });
  }

  std::string CreateTensor(v1::DataType type, int64_t rows, int64_t columns) {
    auto stub = v1::TensorService::NewStub(channel_);
    grpc::ClientContext context;
    v1::CreateTensorRequest request;
    request.set_dtype(type);
    request.set_rows(rows);
    request.set_columns(columns);
    v1::TensorInfo info;
    const grpc::Status status = stub->CreateTensor(&context, request, &info);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return info.handle();
  }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
};

TEST(DrainTest, ASecondSignalIsHarmless) {
  DaemonProcess daemon({"--device=host", kNvrtc, "--drain-grace=2s"});
  ASSERT_NE(daemon.Connect(), nullptr);
  daemon.Signal(SIGINT);
  EXPECT_EQ(daemon.Wait(absl::Milliseconds(300)), std::nullopt);
  daemon.Signal(SIGTERM);
  daemon.Signal(SIGINT);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.Log();
  EXPECT_THAT(daemon.Log(), HasSubstr("event=stopped"));
}

// Whoever starts it may have blocked all signals, and passed that on.
TEST(DrainTest, ASignalThatWasBlockedEndsIt) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  DaemonProcess daemon({"--device=host", "--nvrtc=none"});
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ASSERT_NE(daemon.Connect(), nullptr);
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(kSoon), 0);
}

models::FileHeader HeaderOfModel(const std::string& name, int64_t n,
                                 int64_t k) {
  return {.spec = {.name = name, .problem = {.m = 1, .n = n, .k = k}}};
}

// A model whose file takes long to read and tells only at its end that it is
// damaged: nobody has written its digest. The folder of models is there.
void WriteLargeModel(const std::string& directory, const std::string& name) {
  const models::FileHeader header = HeaderOfModel(name, 1 << 14, 1 << 14);
  const std::string file =
      absl::StrCat(directory, "/models/", models::FileNameOf("", name));
  std::ofstream(file) << models::ToBytes(header);
  std::filesystem::resize_file(file, header.file_bytes());
}

// Before it serves it has nothing to drain, and restores no model for nobody.
TEST(DrainTest, ModelsThatAreBeingRestoredHoldUpNoSignal) {
  const testing::TemporaryFolder folder;
  ASSERT_TRUE(models::ListFiles(folder.path()).ok());  // Makes theirs.
  WriteLargeModel(folder.path(), "large");
  DaemonProcess daemon(
      {"--device=host", "--nvrtc=none", "--model-repository=" + folder.path()});
  ASSERT_TRUE(Eventually([&] {
    return absl::StrContains(daemon.Log(), "event=device");
  })) << daemon.Log();
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(kSoon), 0) << daemon.Log();
  EXPECT_THAT(daemon.Log(), HasSubstr("event=stopped"));
  // Which says that all of it was read: nobody has written its digest.
  EXPECT_THAT(daemon.Log(), Not(HasSubstr("event=model_not_loaded")));
}

// Those of models that have been restored, while others are.
TEST(DrainTest, NorDoTheirCompiles) {
  const testing::TemporaryFolder folder;
  const models::FileHeader small = HeaderOfModel("small", 64, 64);
  auto file = models::FileWriter::Create(folder.path(), small);
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string weights(models::TightBytes(small.layouts()[0]), '\0');
  ASSERT_TRUE(file->Add(weights).ok() && file->Flush().ok() &&
              file->Publish().ok());
  // The oldest comes first. The others take longer than its compile to begin.
  const std::string path =
      absl::StrCat(folder.path(), "/models/", models::FileNameOf("", "small"));
  std::filesystem::last_write_time(
      path, std::filesystem::last_write_time(path) - std::chrono::minutes(1));
  for (const char* const name : {"1", "2", "3", "4", "5", "6", "7", "8"}) {
    WriteLargeModel(folder.path(), name);
  }
  setenv("GEMMD_FAKE_NVRTC", "loop:", 1);
  DaemonProcess daemon({"--device=host", "--nvrtc=" GEMMD_TEST_FAKE_NVRTC,
                        "--model-repository=" + folder.path()});
  unsetenv("GEMMD_FAKE_NVRTC");
  const pid_t worker = daemon.CompileWorker();
  ASSERT_NE(worker, 0);
  ASSERT_TRUE(Eventually([&] {
    return absl::StrContains(daemon.Log(), "event=model_loaded");
  })) << daemon.Log();
  const int64_t before = CpuTicks(worker);
  ASSERT_TRUE(Eventually([&] { return CpuTicks(worker) > before + 5; }));
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(kSoon), 0) << daemon.Log();
  EXPECT_FALSE(Lives(worker));
  EXPECT_THAT(daemon.Log(), HasSubstr("event=stopped"));
  EXPECT_THAT(daemon.Log(), Not(HasSubstr("event=serving")));
}

// Of who tells other daemons by it that their certificates are new.
TEST(DrainTest, SighupChangesNothing) {
  DaemonProcess daemon({"--device=host", kNvrtc});
  Caller caller(daemon.Connect());
  ASSERT_TRUE(caller.Multiply(OnesTimesTwos(7, 7, 7)).get().ok());
  const pid_t worker = daemon.CompileWorker();
  daemon.Signal(SIGHUP);
  ASSERT_EQ(kill(worker, SIGHUP), 0);  // As a terminal that is closed does.
  ASSERT_EQ(daemon.Wait(absl::Milliseconds(300)), std::nullopt);
  ASSERT_TRUE(caller.Multiply(OnesTimesTwos(9, 9, 9)).get().ok());
  EXPECT_TRUE(Lives(worker));
  daemon.Signal(SIGTERM);
  daemon.Signal(SIGHUP);
  EXPECT_EQ(daemon.Wait(), 0) << daemon.Log();
  EXPECT_THAT(daemon.Log(), HasSubstr("event=stopped"));
}

TEST(DrainTest, AProductThatDoesNotEndIsGivenUp) {
  constexpr int64_t kSide = 8192;  // Half a minute of one core.
  DaemonProcess daemon({"--device=host", kNvrtc, "--drain-timeout=0"});
  Caller caller(daemon.Connect());
  ASSERT_TRUE(caller.Multiply(OnesTimesTwos(256, 256, 256)).get().ok());
  v1::MatmulRequest request = OnesTimesTwos(0, 0, 0);
  v1::Problem& problem = *request.mutable_header()->mutable_problem();
  problem.set_m(kSide);
  problem.set_n(kSide);
  problem.set_k(kSide);
  v1::MatmulHeader& header = *request.mutable_header();
  header.mutable_a()->set_tensor(
      caller.CreateTensor(v1::DATA_TYPE_BF16, kSide, kSide));
  header.mutable_b()->set_tensor(
      caller.CreateTensor(v1::DATA_TYPE_BF16, kSide, kSide));
  header.mutable_d()->set_tensor(
      caller.CreateTensor(v1::DATA_TYPE_F32, kSide, kSide));
  const int64_t before = CpuTicks(daemon.pid());
  auto running = caller.Multiply(request);
  ASSERT_TRUE(Eventually([&] { return CpuTicks(daemon.pid()) > before + 30; }))
      << "the product does not begin";
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(kSoon), 3) << daemon.Log();
  EXPECT_THAT(daemon.Log(), HasSubstr("event=given_up"));
  EXPECT_FALSE(running.get().ok());
}

// Has a large tensor sent to it, and reads nothing: the windows are large.
// Returns the stream.
uint32_t Download(DaemonProcess& daemon, RawHttp2& client) {
  Caller caller(daemon.Connect());
  v1::DownloadTensorRequest request;
  request.set_handle(caller.CreateTensor(v1::DATA_TYPE_F32, 4096, 4096));
  const std::string message = request.SerializeAsString();
  client.Write(RawHttp2::FrameOf(
      4, 0, 0, std::string("\0\4\x40\0\0\0", 6)));  // Settings.
  client.Write(RawHttp2::FrameOf(8, 0, 0, std::string("\x40\0\0\0", 4)));
  const uint32_t stream = client.Open("/gemmd.v1.TensorService/DownloadTensor");
  client.Write(RawHttp2::FrameOf(
      0, 1, stream,
      std::string(4, '\0') + static_cast<char>(message.size()) + message));
  absl::SleepFor(absl::Seconds(1));
  return stream;
}

TEST(DrainTest, AnAnswerThatNobodyTakesIsNotWaitedForBeyondTheTimeOut) {
  DaemonProcess daemon({"--device=host", kNvrtc, "--drain-timeout=300ms"});
  ASSERT_NE(daemon.Connect(), nullptr);
  RawHttp2 client(daemon.address());
  Download(daemon, client);
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(kSoon), 0) << daemon.Log();
}

TEST(DrainTest, OneThatWasTakenBackIsNotWaitedForSoLong) {
  DaemonProcess daemon({"--device=host", kNvrtc, "--drain-timeout=60s",
                        "--pressed-stall-timeout=500ms"});
  ASSERT_NE(daemon.Connect(), nullptr);
  RawHttp2 client(daemon.address());
  client.Reset(Download(daemon, client));
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(kSoon), 0) << daemon.Log();
}

// Whether a first compile begins.
bool Compiles(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = v1::ServerService::NewStub(channel);
  return Eventually([&] {
    grpc::ClientContext context;
    v1::Statistics statistics;
    return stub->GetStatistics(&context, {}, &statistics).ok() &&
           statistics.cache().compiles() == 1;
  });
}

TEST(DrainTest, AStoppedCompileWorkerIsKilled) {
  DaemonProcess daemon({"--device=host", kNvrtc, "--drain-timeout=300ms"});
  const auto channel = daemon.Connect();
  Caller caller(channel);
  auto compiling = caller.Multiply(OnesTimesTwos(9, 9, 9));
  ASSERT_TRUE(Compiles(channel));
  const pid_t worker = daemon.StopCompiler();
  ASSERT_NE(worker, 0);
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(kSoon), 0) << daemon.Log();
  EXPECT_FALSE(Lives(worker));
  kill(worker, SIGKILL);
  EXPECT_FALSE(compiling.get().ok());
}

// Nor do the compiles of others wait for it, where several go at a time.
TEST(DrainTest, ACompileThatNeverEndsIsKilled) {
  setenv("GEMMD_FAKE_NVRTC", "loop:.f32.f16.f16", 1);
  DaemonProcess daemon({"--device=host", "--nvrtc=" GEMMD_TEST_FAKE_NVRTC,
                        "--drain-timeout=300ms"});
  unsetenv("GEMMD_FAKE_NVRTC");
  const auto channel = daemon.Connect();
  Caller caller(channel);
  v1::MatmulRequest request = OnesTimesTwos(9, 9, 9);
  v1::Problem& problem = *request.mutable_header()->mutable_problem();
  problem.set_a_type(v1::DATA_TYPE_F16);
  problem.set_b_type(v1::DATA_TYPE_F16);
  const pid_t worker = daemon.CompileWorker();
  ASSERT_NE(worker, 0);
  auto endless = caller.Multiply(request);
  ASSERT_TRUE(Compiles(channel));
  const int64_t before = CpuTicks(worker);
  ASSERT_TRUE(Eventually([&] { return CpuTicks(worker) > before + 10; }));
  if (std::thread::hardware_concurrency() > 1) {
    EXPECT_TRUE(caller.Multiply(OnesTimesTwos(9, 9, 9)).get().ok());
  }
  EXPECT_TRUE(Lives(worker));
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(kSoon), 0) << daemon.Log();
  EXPECT_FALSE(Lives(worker));
  EXPECT_FALSE(endless.get().ok());
}

TEST(DrainTest, AKeyThatAnotherProcessLocksIsAbandoned) {
  const testing::TemporaryFolder folder;
  const std::string cache = folder.path() + "/cache";
  std::filesystem::create_directory(cache);
  ASSERT_EQ(chmod(cache.c_str(), 0700), 0);
  const jit::UniqueFd file(
      open((cache + "/compiling").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct flock all = {};
  all.l_type = F_WRLCK;
  all.l_whence = SEEK_SET;
  ASSERT_EQ(fcntl(file.get(), F_OFD_SETLK, &all), 0);

  DaemonProcess daemon({"--device=host", kNvrtc, "--cache_dir=" + cache,
                        "--drain-timeout=300ms"});
  Caller caller(daemon.Connect());
  auto waiting = caller.Multiply(OnesTimesTwos(9, 9, 9));
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(500)),
            std::future_status::timeout);
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(kSoon), 0) << daemon.Log();
  EXPECT_FALSE(waiting.get().ok());
}

TEST(DrainTest, StreamsThatWereAcceptedAreFinished) {
  constexpr int kStreams = 16;
  DaemonProcess daemon({"--device=host", kNvrtc, "--drain-timeout=60s"});
  const auto channel = daemon.Connect();
  const auto stub = v1::MatmulService::NewStub(channel);
  const v1::MatmulRequest request = OnesTimesTwos(64, 64, 4096);
  const auto messages = testing::ToStream(request, 100000);
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<v1::MatmulStreamRequest,
                                             v1::MatmulStreamResponse>>
        stream;
  };
  std::vector<Call> calls(kStreams);
  for (Call& call : calls) {
    call.stream = stub->MatmulStream(&call.context);
    ASSERT_TRUE(call.stream->Write(messages[0]));
    ASSERT_TRUE(call.stream->Write(messages[1]));
  }
  const auto accepted = [&] {
    grpc::ClientContext context;
    v1::Statistics statistics;
    const auto server = v1::ServerService::NewStub(channel);
    // Rooms for A, B and D each: 512, 512 and 16 KiB.
    return server->GetStatistics(&context, {}, &statistics).ok() &&
           statistics.tensor_bytes() == kStreams * (1040 << 10);
  };
  ASSERT_TRUE(Eventually(accepted)) << "the streams do not begin";
  daemon.Signal(SIGTERM);
  EXPECT_EQ(daemon.Wait(absl::Milliseconds(300)), std::nullopt);
  for (Call& call : calls) {
    for (size_t i = 2; i < messages.size(); ++i) {
      ASSERT_TRUE(call.stream->Write(messages[i]));
    }
    call.stream->WritesDone();
    size_t bytes = 0;
    for (v1::MatmulStreamResponse part; call.stream->Read(&part);) {
      bytes += part.data().size();
    }
    const grpc::Status status = call.stream->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(bytes, 64u * 64 * 4);
  }
  EXPECT_EQ(daemon.Wait(kSoon), 0) << daemon.Log();
}

// Unlike one of which nothing has come: server_test.cc.
TEST(DrainTest, ARequestThatIsHalfHereIsWaitedFor) {
  constexpr size_t kHalfBytes = 512 << 10;  // More than a stream's window.
  const std::string half(kHalfBytes, '\0');
  DaemonProcess daemon({"--device=host", kNvrtc, "--drain-timeout=60s"});
  const auto stub = v1::ServerService::NewStub(daemon.Connect());
  v1::Statistics statistics;
  const auto ask = [&] {
    grpc::ClientContext context;
    return stub->GetStatistics(&context, {}, &statistics).error_code();
  };
  RawHttp2 client(daemon.address());
  const uint32_t stream =
      client.Open("/inference.GRPCInferenceService/ModelStreamInfer");
  client.SendPrefix(stream, 0);  // A whole one, that names no model.
  ASSERT_TRUE(Eventually(
      [&] { return ask() == grpc::OK && statistics.requests() == 1; }));
  client.SendPrefix(stream, 2 * kHalfBytes);
  ASSERT_EQ(client.Send(stream, half, false), kHalfBytes);
  daemon.Signal(SIGTERM);
  ASSERT_TRUE(Eventually([&] { return ask() == grpc::UNAVAILABLE; }));
  // Of calls that idle, none is left now.
  client.Read(absl::Milliseconds(600));
  EXPECT_EQ(client.ended(), 0);
  EXPECT_EQ(client.Send(stream, half, false), kHalfBytes);
  EXPECT_EQ(daemon.Wait(kSoon), 0) << daemon.Log();
}

TEST(DrainTest, AConnectionThatIdlesIsClosed) {
  DaemonProcess daemon({"--device=host", kNvrtc, "--drain-timeout=60s"});
  ASSERT_NE(daemon.Connect(), nullptr);
  testing::SilentPeer client(daemon.address());
  ASSERT_FALSE(client.Ends(absl::Milliseconds(200)));
  ASSERT_TRUE(client.Heard(4));  // The daemon's settings: it is there.
  daemon.Signal(SIGTERM);
  // gRPC by itself waits 20 s for the client's answer to a ping.
  EXPECT_EQ(daemon.Wait(absl::Seconds(15)), 0) << daemon.Log();
}

}  // namespace
}  // namespace gemmd
