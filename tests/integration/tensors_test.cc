// Resident tensors: what they are, who sees them, and how long they live.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <set>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "tests/integration/eventually.h"
#include "tests/integration/tensors_fixture.h"

namespace gemmd {
namespace {

using ::testing::HasSubstr;
using testing::TensorsTest;

TEST_F(TensorsTest, StartAsZerosAndSayWhatTheyAre) {
  // Memory that nobody clears holds anything but zeros.
  mallopt(M_PERTURB, 0x5a);
  v1::CreateTensorRequest request = Request(v1::DATA_TYPE_BF16, 3, 5);
  request.set_order(v1::ORDER_COLUMN_MAJOR);
  request.set_label("weights");
  request.set_ttl_s(77);
  ASSERT_TRUE(Create(request).ok());
  EXPECT_EQ(info_.handle().size(), 32);
  EXPECT_EQ(info_.dtype(), v1::DATA_TYPE_BF16);
  EXPECT_EQ(info_.rows(), 3);
  EXPECT_EQ(info_.columns(), 5);
  EXPECT_EQ(info_.order(), v1::ORDER_COLUMN_MAJOR);
  EXPECT_EQ(info_.device(), "host");
  EXPECT_EQ(info_.label(), "weights");
  EXPECT_EQ(info_.device_bytes(), 5 * 16);
  EXPECT_EQ(info_.ttl_s(), 77);
  EXPECT_EQ(Download(info_.handle()), std::string(30, '\0'));
  mallopt(M_PERTURB, 0);

  v1::DescribeTensorRequest describe;
  describe.set_handle(info_.handle());
  grpc::ClientContext context;
  v1::TensorInfo again;
  ASSERT_TRUE(tensors_->DescribeTensor(&context, describe, &again).ok());
  EXPECT_EQ(again.label(), "weights");
}

TEST_F(TensorsTest, ListedUntilDeleted) {
  const std::string first = CreateF32(1, 1);
  const std::string second = CreateF32(2, 2);
  const auto list = [&] {
    grpc::ClientContext context;
    v1::ListTensorsResponse response;
    EXPECT_TRUE(tensors_->ListTensors(&context, {}, &response).ok());
    return response.tensors_size();
  };
  EXPECT_EQ(list(), 2);
  EXPECT_TRUE(Delete(first).ok());
  EXPECT_EQ(list(), 1);
  EXPECT_EQ(Delete(first).error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(Download(first), "");
  EXPECT_EQ(status_.error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(UploadAll(first, "1234", 4).error_code(), grpc::NOT_FOUND);
}

TEST_F(TensorsTest, AreListedAPageAtATime) {
  std::set<std::string> created;
  for (int i = 0; i < 1002; ++i) created.insert(CreateF32(1, 1));
  v1::ListTensorsRequest request;
  const auto next = [&] {
    grpc::ClientContext context;
    v1::ListTensorsResponse page;
    EXPECT_TRUE(tensors_->ListTensors(&context, request, &page).ok());
    for (const v1::TensorInfo& tensor : page.tensors()) {
      EXPECT_EQ(created.erase(tensor.handle()), 1) << "once each";
    }
    request.set_page_token(page.next_page_token());
    return page.tensors_size();
  };
  EXPECT_EQ(next(), 1000) << "whatever there is";
  request.set_page_size(1);
  EXPECT_EQ(next(), 1);
  EXPECT_EQ(next(), 1);
  EXPECT_EQ(request.page_token(), "");
  EXPECT_TRUE(created.empty());
  for (const int size : {-1, 1001}) {
    request.set_page_size(size);
    grpc::ClientContext context;
    v1::ListTensorsResponse page;
    EXPECT_THAT(tensors_->ListTensors(&context, request, &page).error_message(),
                HasSubstr("allowed: 0 to 1000"));
  }
}

TEST_F(TensorsTest, AreListedToTheirCreatorAlone) {
  const std::string handle = CreateF32(1, 1);
  const auto other = v1::TensorService::NewStub(server_.unix_channel());
  grpc::ClientContext context;
  v1::ListTensorsResponse response;
  ASSERT_TRUE(other->ListTensors(&context, {}, &response).ok());
  EXPECT_EQ(response.tensors_size(), 0);
  // Whoever holds the handle may use it.
  grpc::ClientContext describing;
  v1::DescribeTensorRequest request;
  request.set_handle(handle);
  v1::TensorInfo info;
  EXPECT_TRUE(other->DescribeTensor(&describing, request, &info).ok());
}

TEST_F(TensorsTest, EndWithTheirConnectionWhereTheyAreMeantTo) {
  CreateF32(1, 1);
  {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto stub = v1::TensorService::NewStub(grpc::CreateCustomChannel(
        server_.address(), grpc::InsecureChannelCredentials(), arguments));
    v1::CreateTensorRequest request = Request(v1::DATA_TYPE_F32, 1, 1);
    request.set_lifetime(v1::CreateTensorRequest::LIFETIME_CONNECTION);
    grpc::ClientContext context;
    v1::TensorInfo info;
    ASSERT_TRUE(stub->CreateTensor(&context, request, &info).ok());
    EXPECT_EQ(server_.engine().tensors().count(), 2);
  }
  EXPECT_TRUE(testing::Eventually(
      [&] { return server_.engine().tensors().count() == 1; }));
}

// Nobody knows its handle.
TEST_F(TensorsTest, EndWhenTheirCreatorLeftBeforeTheAnswer) {
  const engine::TensorStore& tensors = server_.engine().tensors();
  v1::CreateTensorRequest request =
      Request(v1::DATA_TYPE_F32, 4 << 10,
              4 << 10);  // 64 MiB, which are cleared for a moment.
  int left = 0;
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    std::thread leave([&] {
      EXPECT_TRUE(testing::Eventually([&] { return tensors.bytes() > 0; }));
      context.TryCancel();
    });
    const grpc::Status status =
        tensors_->CreateTensor(&context, request, &info_);
    leave.join();
    if (status.ok()) {  // The answer came first.
      EXPECT_TRUE(server_.engine().tensors().Delete(info_.handle()).ok());
    } else {
      EXPECT_EQ(status.error_code(), grpc::CANCELLED) << status.error_message();
      ++left;
    }
    ASSERT_TRUE(testing::Eventually(
        [&] { return tensors.count() == 0 && tensors.bytes() == 0; }));
  }
  EXPECT_GT(left, 0);
}

TEST_F(TensorsTest, ExpireWhenIdle) {
  v1::CreateTensorRequest request = Request(v1::DATA_TYPE_F32, 1, 1);
  request.set_ttl_s(1);
  ASSERT_TRUE(Create(request).ok());
  const absl::Time start = absl::Now();
  while (server_.engine().tensors().count() > 0) {
    ASSERT_LT(absl::Now() - start, absl::Seconds(20));
    absl::SleepFor(absl::Milliseconds(50));
  }
  EXPECT_GE(absl::Now() - start, absl::Seconds(1));
  EXPECT_EQ(server_.engine().tensors().bytes(), 0);
}

TEST_F(TensorsTest, CreationsThatMakeNoSenseAreRefused) {
  struct Bad {
    grpc::StatusCode code;
    const char* says;
    void (*spoil)(v1::CreateTensorRequest&);
  };
  const Bad kBad[] = {
      {grpc::INVALID_ARGUMENT, "dtype is unspecified",
       [](auto& r) { r.clear_dtype(); }},
      {grpc::INVALID_ARGUMENT, "count is -1", [](auto& r) { r.set_count(-1); }},
      {grpc::INVALID_ARGUMENT, "rows is 0; allowed: 1 to 2147483392",
       [](auto& r) { r.set_rows(0); }},
      {grpc::INVALID_ARGUMENT, "columns is -1",
       [](auto& r) { r.set_columns(-1); }},
      {grpc::INVALID_ARGUMENT, "order is 5",
       [](auto& r) { r.set_order(v1::Order(5)); }},
      {grpc::INVALID_ARGUMENT, "ttl_s is -1", [](auto& r) { r.set_ttl_s(-1); }},
      {grpc::INVALID_ARGUMENT, "label has 129 bytes",
       [](auto& r) { r.set_label(std::string(129, 'x')); }},
      {grpc::INVALID_ARGUMENT, "device is unknown",
       [](auto& r) { r.set_device("cuda:9"); }},
      {grpc::RESOURCE_EXHAUSTED, "the limit of all tensors is 536870912",
       [](auto& r) {
         r.set_rows(2147483392);
         r.set_columns(2147483392);
       }},
  };
  for (const Bad& bad : kBad) {
    v1::CreateTensorRequest request = Request(v1::DATA_TYPE_F32, 2, 2);
    bad.spoil(request);
    const grpc::Status status = Create(request);
    EXPECT_EQ(status.error_code(), bad.code) << bad.says;
    EXPECT_THAT(status.error_message(), HasSubstr(bad.says));
  }
  EXPECT_EQ(server_.engine().tensors().count(), 0);
}

}  // namespace
}  // namespace gemmd
