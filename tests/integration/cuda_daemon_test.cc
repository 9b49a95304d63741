// The daemon with GPUs, as far as it can see: threaded_driver has two, whose
// streams are threads. What lanes, transfers and requests do at the same time
// happens at the same time, under a sanitizer, too. Each kernel's memory has to
// live while it runs, and all is given back.
#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "clients/cpp/client.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/driver_crowd.h"
#include "tests/integration/sanitizer.h"

namespace gemmd {
namespace {

using testing::DaemonProcess;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Property;
using testing::RunCrowd;

constexpr int kClients = 8;
constexpr int kRounds = 40;
const absl::Duration kHangLimit =
    testing::kSanitizerSlowness * absl::Seconds(2);

// What a daemon that is started later finds.
std::string PrepareEnvironment(const std::string& faults) {
  setenv("LD_LIBRARY_PATH", GEMMD_TEST_THREADED_DRIVER, 1);
  setenv("GEMMD_TEST_DRIVER_FAULTS", faults.c_str(), 1);
  return "--nvrtc=" GEMMD_TEST_NVRTC;
}

class CudaDaemonTest : public ::testing::Test {
 protected:
  CudaDaemonTest()
      : unix_address_("unix:" + folder_.path() + "/socket"),
        daemon_({PrepareEnvironment(folder_.path()),
                 "--listen=127.0.0.1:0," + unix_address_,
                 "--hang-limit=" + absl::FormatDuration(kHangLimit)}) {
    daemon_.Connect();
  }
  // It ends well, and gives all memory back.
  ~CudaDaemonTest() override {
    daemon_.Signal(SIGTERM);
    EXPECT_EQ(daemon_.Wait(), 0);
    EXPECT_THAT(daemon_.Log(), HasSubstr("driver: 0 bytes of device memory"));
  }

  // From now on the function returns that.
  void Fault(const std::string& function, int result) {
    std::ofstream(folder_.path() + "/" + function) << result;
  }
  void NoFault(const std::string& function) {
    std::filesystem::remove(folder_.path() + "/" + function);
  }

  const testing::TemporaryFolder folder_;  // Of the faults, and the socket.
  const std::string unix_address_;
  DaemonProcess daemon_;
};

TEST_F(CudaDaemonTest, WhatIsSentComesBackBesideProducts) {
  EXPECT_THAT(RunCrowd(unix_address_, kClients, kRounds), IsEmpty());
  const auto client = client::Client::Connect(daemon_.address());
  const auto statistics = (*client)->GetStatistics();
  ASSERT_TRUE(statistics.ok()) << statistics.status();
  EXPECT_EQ(statistics->tensors(), 0);
  EXPECT_EQ(statistics->tensor_bytes(), 0);
}

TEST_F(CudaDaemonTest, WithoutMemoryRequestsFailAndNothingElse) {
  constexpr char kAllocate[] = "cuMemAllocFromPoolAsync";
  EXPECT_THAT(RunCrowd(daemon_.address(), kClients, 5), IsEmpty());
  Fault(kAllocate, CUDA_ERROR_OUT_OF_MEMORY);
  const auto failures = RunCrowd(daemon_.address(), kClients, 5);
  EXPECT_THAT(failures, Not(IsEmpty()));
  EXPECT_THAT(failures, Each(Property(&absl::Status::code,
                                      absl::StatusCode::kResourceExhausted)));
  NoFault(kAllocate);
  EXPECT_THAT(RunCrowd(daemon_.address(), kClients, kRounds), IsEmpty());
}

TEST_F(CudaDaemonTest, OfTwoDevicesTheOtherServes) {
  EXPECT_THAT(RunCrowd(daemon_.address(), kClients, 5), IsEmpty());
  Fault("lost", 1);
  EXPECT_THAT(
      RunCrowd(daemon_.address(), kClients, kRounds),
      Each(Property(&absl::Status::code, absl::StatusCode::kUnavailable)));
  EXPECT_THAT(RunCrowd(daemon_.address(), kClients, kRounds), IsEmpty());
}

// Wherever its operands are; it lets go of them when it goes on.
TEST_F(CudaDaemonTest, WhatADeviceThatHangsWasGivenIsAnswered) {
  EXPECT_THAT(RunCrowd(daemon_.address(), kClients, 5), IsEmpty());
  Fault("hangs", 1);
  const auto failures = RunCrowd(daemon_.address(), kClients, 6, "cuda:1");
  EXPECT_GT(failures.size(), 3u * kClients);
  EXPECT_THAT(failures, Each(Property(&absl::Status::code,
                                      absl::StatusCode::kUnavailable)));
  NoFault("hangs");
}

}  // namespace
}  // namespace gemmd
