// Products whose operands and results lie in device memory of clients: who may
// share which memory, where products with it run, and how it ends. What a GPU
// does with it: tests/service/gpu/device_region_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gemmd/v1/regions.grpc.pb.h"
#include "tests/integration/stream_call.h"
#include "tests/integration/test_server.h"
#include "tests/service/fake_allocation.h"
#include "tests/service/gate.h"
#include "tests/service/rpc/region/giver.h"

namespace gemmd {
namespace {

using grpc::StatusCode;
using testing::FakeAllocation;
using testing::GivenMemory;
using testing::Giver;
using ::testing::HasSubstr;
using testing::OnesTimesTwos;
using testing::TestServer;

constexpr size_t kBytes = 1 << 20;

std::string SocketOf(TestServer& server) {
  return server.server().addresses()[1].substr(5) + ".memory";
}

grpc::Status Create(TestServer& server, const v1::CreateRegionRequest& request,
                    v1::RegionInfo* info = nullptr) {
  grpc::ClientContext context;
  v1::RegionInfo unused;
  return v1::RegionService::NewStub(server.unix_channel())
      ->CreateRegion(&context, request, info == nullptr ? &unused : info);
}

v1::CreateRegionRequest OnDevice(const std::string& handle, int number,
                                 int64_t bytes) {
  v1::CreateRegionRequest request;
  request.set_handle(handle);
  request.mutable_device_memory()->set_device_uuid(
      FakeAllocation::Uuid(number));
  request.mutable_device_memory()->set_bytes(bytes);
  return request;
}

v1::CreateRegionRequest ByIpc(const std::string& handle, int number,
                              const std::string& ipc) {
  v1::CreateRegionRequest request = OnDevice(handle, number, 0);
  request.mutable_device_memory()->set_ipc_handle(ipc);
  return request;
}

// An allocation on the device of that number, and its region.
class DeviceRegion {
 public:
  DeviceRegion(TestServer& server, int number)
      : giver_(SocketOf(server)), handle_(giver_.Give(memory_)) {
    v1::RegionInfo info;
    const grpc::Status status =
        Create(server, OnDevice(handle_, number, kBytes), &info);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(info.bytes(), static_cast<int64_t>(kBytes));
    EXPECT_EQ(info.device(),
              number == 0 ? "host" : absl::StrCat("host:", number));
  }

  void Put(int64_t offset, const std::string& bytes) {
    bytes.copy(memory_.bytes() + offset, bytes.size());
  }
  std::string Take(int64_t offset, size_t size) const {
    return std::string(memory_.bytes() + offset, size);
  }
  void Name(int64_t offset, v1::RegionPart& part) const {
    part.set_region(handle_);
    part.set_offset(offset);
  }
  void Close() { giver_.Close(); }
  const std::string& handle() const { return handle_; }

 private:
  GivenMemory memory_{kBytes};
  Giver giver_;
  const std::string handle_;
};

class DeviceRegionsTest : public ::testing::Test {
 protected:
  grpc::Status Multiply(const v1::MatmulRequest& request,
                        v1::MatmulResponse* response = nullptr) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(1)));
    v1::MatmulResponse unused;
    return v1::MatmulService::NewStub(server_.unix_channel())
        ->Matmul(&context, request, response == nullptr ? &unused : response);
  }
  void ExpectRefused(const grpc::Status& status, const std::string& why,
                     StatusCode code = StatusCode::INVALID_ARGUMENT) {
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(why));
  }
  // Ones times twos, A of which is in the second device's memory.
  v1::MatmulRequest WithA(int64_t offset) {
    v1::MatmulRequest request = OnesTimesTwos(8, 8, 16);
    second_.Put(std::clamp<int64_t>(offset, 0, kBytes - 256), request.a());
    request.clear_a();
    second_.Name(offset,
                 *request.mutable_header()->mutable_a()->mutable_region());
    return request;
  }

  TestServer server_{{.devices = 2, .shares_memory = true}};
  DeviceRegion first_{server_, 0};
  DeviceRegion second_{server_, 1};
};

TEST_F(DeviceRegionsTest, AProductRunsWhereItsMemoryIs) {
  const v1::MatmulRequest sent = OnesTimesTwos(8, 8, 16);
  v1::MatmulResponse expected, response;
  ASSERT_TRUE(Multiply(sent, &expected).ok());
  v1::MatmulRequest request = WithA(4096);
  second_.Put(8192, request.b());
  request.clear_b();
  v1::MatmulHeader& header = *request.mutable_header();
  second_.Name(8192, *header.mutable_b()->mutable_region());
  second_.Name(16384, *header.mutable_d()->mutable_region());
  const grpc::Status status = Multiply(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(response.d().empty());
  EXPECT_THAT(response.execution().device(), HasSubstr("host:1"));
  EXPECT_EQ(second_.Take(16384, expected.d().size()), expected.d());
  const v1::Paths& paths = response.execution().paths();
  EXPECT_EQ(paths.a(), v1::PATH_DEVICE_VMM);
  EXPECT_EQ(paths.b(), v1::PATH_DEVICE_VMM);
  EXPECT_EQ(paths.c(), v1::PATH_UNSPECIFIED);
  EXPECT_EQ(paths.d(), v1::PATH_DEVICE_VMM);
  EXPECT_EQ(paths.copies(), 3) << "this device uses nothing where it is";
  EXPECT_EQ(expected.execution().paths().a(), v1::PATH_INLINE);
  EXPECT_EQ(expected.execution().paths().d(), v1::PATH_INLINE);
  EXPECT_EQ(expected.execution().paths().copies(), 0);
}

TEST_F(DeviceRegionsTest, MemoryOfTheHostAndOfADeviceGoTogether) {
  const GivenMemory memory(kBytes);
  Giver giver(SocketOf(server_));
  v1::CreateRegionRequest create;
  create.set_handle(giver.Give(memory));
  ASSERT_TRUE(Create(server_, create).ok());
  v1::MatmulRequest request = WithA(64);
  std::memcpy(memory.bytes(), request.b().data(), request.b().size());
  request.clear_b();
  request.mutable_header()->mutable_b()->mutable_region()->set_region(
      create.handle());
  v1::MatmulResponse response;
  const grpc::Status status = Multiply(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.execution().paths().a(), v1::PATH_DEVICE_VMM);
  EXPECT_EQ(response.execution().paths().b(), v1::PATH_SHARED);
  v1::MatmulResponse expected;
  ASSERT_TRUE(Multiply(OnesTimesTwos(8, 8, 16), &expected).ok());
  EXPECT_EQ(response.d(), expected.d());
}

TEST_F(DeviceRegionsTest, MemoryOfTwoDevicesDoesNot) {
  v1::MatmulRequest request = WithA(0);
  first_.Put(0, request.b());
  request.clear_b();
  first_.Name(0, *request.mutable_header()->mutable_b()->mutable_region());
  ExpectRefused(Multiply(request),
                "device: a region lives on host and not on host:1; allowed: "
                "results and device memory on one device");
  request = WithA(0);
  first_.Name(0, *request.mutable_header()->mutable_d()->mutable_region());
  ExpectRefused(Multiply(request), "device: a region lives on host");
  request = WithA(0);
  request.mutable_header()->set_device("host");
  ExpectRefused(Multiply(request), "a region lives on host:1 and not on host");
  request.mutable_header()->set_device("host:1");
  EXPECT_TRUE(Multiply(request).ok());
}

// Of ones times twos, all of which is in memory of the second device.
TEST_F(DeviceRegionsTest, ASequenceRunsWhereItsMemoryIs) {
  const v1::MatmulRequest sent = OnesTimesTwos(8, 8, 16);
  v1::MatmulResponse expected;
  ASSERT_TRUE(Multiply(sent, &expected).ok());
  second_.Put(4096, sent.a());
  v1::SequenceRequest request;
  *request.add_steps()->mutable_problem() = sent.header().problem();
  v1::MatmulHeader& step = *request.mutable_steps(0);
  step.mutable_a()->set_name("ones");
  step.mutable_b()->set_name("twos");
  second_.Name(16384, *step.mutable_d()->mutable_region());
  request.add_operands()->set_name("ones");
  second_.Name(4096, *request.mutable_operands(0)->mutable_region());
  request.add_operands()->set_name("twos");
  request.mutable_operands(1)->set_data(sent.b());
  v1::SequenceResponse response;
  const auto send = [&] {
    grpc::ClientContext context;
    return v1::MatmulService::NewStub(server_.unix_channel())
        ->Sequence(&context, request, &response);
  };
  const auto expect_there = [&] {
    const grpc::Status status = send();
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_THAT(response.steps(0).execution().device(), HasSubstr("host:1"));
    const v1::Paths& paths = response.steps(0).execution().paths();
    EXPECT_EQ(paths.a(), v1::PATH_DEVICE_VMM);
    EXPECT_EQ(paths.b(), v1::PATH_INLINE);
    EXPECT_EQ(paths.copies(), step.d().has_region() ? 2 : 1);
  };
  expect_there();
  EXPECT_EQ(second_.Take(16384, expected.d().size()), expected.d());
  request.set_device("host");
  ExpectRefused(send(),
                "steps[0]: device: a region lives on host:1 and not on host");
  request.clear_device();
  // One of the two is enough.
  step.mutable_d()->mutable_inline_();
  expect_there();
  EXPECT_EQ(response.steps(0).d(), expected.d());
  request.set_device("host");
  ExpectRefused(send(),
                "operand \"ones\": device: a region lives on host:1 and not "
                "on host");
  request.clear_device();
  first_.Put(0, sent.b());
  request.mutable_operands(1)->clear_data();
  first_.Name(0, *request.mutable_operands(1)->mutable_region());
  ExpectRefused(send(),
                "operand \"twos\": device: a region lives on host and not on "
                "host:1");
}

TEST_F(DeviceRegionsTest, AStreamRunsWhereItsMemoryIs) {
  v1::MatmulRequest request = WithA(4096);
  second_.Name(16384, *request.mutable_header()->mutable_d()->mutable_region());
  const testing::StreamAnswer answer = testing::CallStream(
      server_.unix_channel(), testing::ToStream(request, 100));
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  const v1::Execution& execution = answer.response.execution();
  EXPECT_THAT(execution.device(), HasSubstr("host:1"));
  EXPECT_EQ(execution.paths().a(), v1::PATH_DEVICE_VMM);
  EXPECT_EQ(execution.paths().b(), v1::PATH_STREAM);
  EXPECT_EQ(execution.paths().d(), v1::PATH_DEVICE_VMM);
  v1::MatmulResponse expected;
  ASSERT_TRUE(Multiply(OnesTimesTwos(8, 8, 16), &expected).ok());
  EXPECT_EQ(second_.Take(16384, expected.d().size()), expected.d());
}

TEST_F(DeviceRegionsTest, WhatIsBeyondIsRefused) {
  EXPECT_TRUE(Multiply(WithA(kBytes - 256)).ok());
  for (const int64_t offset : {int64_t{-1}, int64_t{kBytes - 255},
                               std::numeric_limits<int64_t>::max()}) {
    ExpectRefused(Multiply(WithA(offset)),
                  absl::StrCat("a.region.offset is ", offset));
  }
}

TEST_F(DeviceRegionsTest, LinesThatEndWithinAByteAreRefused) {
  v1::MatmulRequest request = WithA(0);
  v1::Problem& problem = *request.mutable_header()->mutable_problem();
  problem.set_a_type(v1::DATA_TYPE_B1);
  problem.set_b_type(v1::DATA_TYPE_B1);
  problem.set_d_type(v1::DATA_TYPE_S32);
  problem.set_k(13);
  problem.set_b_order(v1::ORDER_COLUMN_MAJOR);
  request.set_b(std::string(16, '\1'));
  ExpectRefused(Multiply(request),
                "a.region is in device memory and its lines have 13 elements "
                "of 1 bits; allowed there: lines of whole bytes");
  problem.set_k(16);
  const grpc::Status status = Multiply(request);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(DeviceRegionsTest, HandlesOfIpcHaveNoDescriptor) {
  Giver giver(SocketOf(server_));
  const std::string handle = giver.GiveNone();
  ASSERT_EQ(handle.size(), 32u);
  v1::RegionInfo info;
  const grpc::Status status =
      Create(server_, ByIpc(handle, 1, FakeAllocation::IpcHandle()), &info);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(info.bytes(), 1 << 16);
  v1::MatmulRequest request = OnesTimesTwos(8, 8, 16);
  request.mutable_header()->mutable_d()->mutable_region()->set_region(handle);
  v1::MatmulResponse response;
  ASSERT_TRUE(Multiply(request, &response).ok());
  EXPECT_EQ(response.execution().paths().d(), v1::PATH_DEVICE_IPC);
}

TEST_F(DeviceRegionsTest, WhatIsNoAllocationIsRefusedAndNothingLost) {
  const int live = FakeAllocation::live;
  const GivenMemory memory(4096);
  const auto offer = [&](bool with_descriptor) {
    Giver giver(SocketOf(server_));
    const std::string handle =
        with_descriptor ? giver.Give(memory) : giver.GiveNone();
    return std::pair(std::move(giver), handle);
  };
  {
    const auto [giver, handle] = offer(true);
    ExpectRefused(Create(server_, OnDevice(handle, 0, 8192)),
                  "the driver does not take it");
    // It is gone.
    ExpectRefused(Create(server_, OnDevice(handle, 0, 4096)), "no such region",
                  StatusCode::NOT_FOUND);
  }
  {
    const auto [giver, handle] = offer(true);
    ExpectRefused(
        Create(server_, ByIpc(handle, 0, FakeAllocation::IpcHandle())),
        "ipc_handle is given and a descriptor was sent");
  }
  {
    const auto [giver, handle] = offer(false);
    ExpectRefused(Create(server_, ByIpc(handle, 0, std::string(64, 'x'))),
                  "the driver does not take it");
  }
  {
    const auto [giver, handle] = offer(false);
    ExpectRefused(Create(server_, OnDevice(handle, 0, 4096)),
                  "no descriptor was sent");
  }
  {
    const auto [giver, handle] = offer(false);
    v1::CreateRegionRequest host;
    host.set_handle(handle);
    ExpectRefused(Create(server_, host),
                  "no descriptor was sent; allowed: that of a memfd");
  }
  {
    const auto [giver, handle] = offer(true);
    ExpectRefused(Create(server_, OnDevice(handle, 7, 4096)),
                  absl::StrCat("device_uuid is ", FakeAllocation::Uuid(7),
                               "; this daemon has ", FakeAllocation::Uuid(0),
                               " (host), ", FakeAllocation::Uuid(1)),
                  StatusCode::FAILED_PRECONDITION);
    v1::CreateRegionRequest strange = OnDevice(handle, 7, 4096);
    strange.mutable_device_memory()->set_device_uuid("\x1b\n" +
                                                     std::string(9999, 'x'));
    ExpectRefused(
        Create(server_, strange),
        "device_uuid is \\x1b\\n" + std::string(62, 'x') + "; this daemon has",
        StatusCode::FAILED_PRECONDITION);
    // That was the request's fault: the offer stands.
    EXPECT_TRUE(Create(server_, OnDevice(handle, 0, 4096)).ok());
    ExpectRefused(Create(server_, OnDevice(handle, 0, 4096)),
                  "has been created", StatusCode::ALREADY_EXISTS);
  }
  EXPECT_TRUE(
      testing::Eventually([&] { return FakeAllocation::live == live; }));
  EXPECT_TRUE(Multiply(WithA(0)).ok());
}

TEST_F(DeviceRegionsTest, ARegionEndsWithItsConnection) {
  const int live = FakeAllocation::live;
  const v1::MatmulRequest request = WithA(0);
  ASSERT_TRUE(Multiply(request).ok());
  second_.Close();
  EXPECT_TRUE(
      testing::Eventually([&] { return FakeAllocation::live == live - 1; }));
  ExpectRefused(Multiply(request), "a.region: no such region",
                StatusCode::NOT_FOUND);
}

TEST_F(DeviceRegionsTest, TheyCostNoBytesButAreCounted) {
  std::vector<Giver> givers;
  const auto create = [&] {
    Giver& giver = givers.emplace_back(SocketOf(server_));
    return Create(server_,
                  ByIpc(giver.GiveNone(), 0, FakeAllocation::IpcHandle()));
  };
  for (int i = 2; i < 64; ++i) ASSERT_TRUE(create().ok());
  ExpectRefused(create(), "this client has 64 regions",
                StatusCode::RESOURCE_EXHAUSTED);
  givers.clear();
  EXPECT_TRUE(testing::Eventually([&] { return create().ok(); }));
}

TEST_F(DeviceRegionsTest, TensorsAreFilledFromItAndReadToIt) {
  const auto stub = v1::TensorService::NewStub(server_.unix_channel());
  const auto create = [&](const std::string& device) {
    v1::CreateTensorRequest request;
    request.set_dtype(v1::DATA_TYPE_S8);
    request.set_rows(5);
    request.set_columns(12);
    request.set_device(device);
    grpc::ClientContext context;
    v1::TensorInfo info;
    EXPECT_TRUE(stub->CreateTensor(&context, request, &info).ok());
    return info.handle();
  };
  const auto upload = [&](const std::string& tensor) {
    v1::UploadTensorRequest request;
    request.mutable_header()->set_handle(tensor);
    second_.Name(100, *request.mutable_header()->mutable_region());
    grpc::ClientContext context;
    v1::TensorInfo info;
    const auto stream = stub->UploadTensor(&context, &info);
    if (stream->Write(request)) stream->WritesDone();
    return stream->Finish();
  };
  const auto download = [&](const std::string& tensor) {
    v1::DownloadTensorRequest request;
    request.set_handle(tensor);
    second_.Name(1000, *request.mutable_region());
    grpc::ClientContext context;
    v1::DownloadTensorResponse response;
    const auto stream = stub->DownloadTensor(&context, request);
    while (stream->Read(&response)) continue;
    return stream->Finish();
  };
  second_.Put(100, std::string(60, 't'));
  const std::string there = create("host:1"), elsewhere = create("host");
  EXPECT_TRUE(upload(there).ok());
  EXPECT_TRUE(download(there).ok());
  EXPECT_EQ(second_.Take(1000, 60), std::string(60, 't'));
  ExpectRefused(upload(elsewhere),
                "header.region is in memory of host:1 and the tensor lives on "
                "host; allowed: one device");
  ExpectRefused(download(elsewhere), "region is in memory of host:1");
}

TEST_F(DeviceRegionsTest, TheDaemonSaysWhatItShares) {
  grpc::ClientContext context;
  v1::ServerInfo info;
  ASSERT_TRUE(v1::ServerService::NewStub(server_.channel())
                  ->GetServerInfo(&context, {}, &info)
                  .ok());
  EXPECT_EQ(info.devices(1).uuid(), FakeAllocation::Uuid(1));
  EXPECT_TRUE(info.devices(1).shares_vmm());
  EXPECT_TRUE(info.devices(1).shares_ipc());
}

TEST(WithoutAGpuTest, DeviceMemoryIsRefused) {
  TestServer server;
  Giver giver(SocketOf(server));
  const grpc::Status status =
      Create(server, ByIpc(giver.GiveNone(), 0, FakeAllocation::IpcHandle()));
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(),
              HasSubstr("this daemon has no GPU: allowed is memory of the "
                        "host"));
}

// The client dies while his product runs.
TEST(InFlightTest, AProductKeepsItsMemory) {
  testing::Gate gate;
  gate.Close();
  auto hooks = std::make_shared<testing::Hooks>();
  hooks->multiply = [&](const jit::Problem&, const jit::Plan&) {
    gate.Pass();
    return absl::OkStatus();
  };
  TestServer server({.shares_memory = true, .hooks = hooks});
  const int before = FakeAllocation::live;
  DeviceRegion region(server, 0);
  v1::MatmulRequest request = OnesTimesTwos(8, 8, 16);
  region.Name(512, *request.mutable_header()->mutable_d()->mutable_region());
  grpc::Status status;
  std::thread call([&] {
    grpc::ClientContext context;
    v1::MatmulResponse response;
    status = v1::MatmulService::NewStub(server.unix_channel())
                 ->Matmul(&context, request, &response);
  });
  ASSERT_TRUE(gate.WaitForArrivals(1));
  region.Close();
  EXPECT_TRUE(testing::Eventually([&] {
    v1::CreateRegionRequest again = OnDevice(region.handle(), 0, kBytes);
    return Create(server, again).error_code() == StatusCode::NOT_FOUND;
  }));
  EXPECT_EQ(FakeAllocation::live, before + 1);
  gate.Open();
  call.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_NE(region.Take(512, 256), std::string(256, '\0'));
  EXPECT_TRUE(
      testing::Eventually([&] { return FakeAllocation::live == before; }));
}

}  // namespace
}  // namespace gemmd
