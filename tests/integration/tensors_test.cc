// Resident tensors through a real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/eventually.h"
#include "tests/integration/test_server.h"
#include "tests/service/gate.h"
#include "tests/service/matrix.h"

namespace gemmd {
namespace {

using jit::DataType;
using testing::Get;
using ::testing::HasSubstr;
using testing::OnesTimesTwos;
using testing::TestServer;

class TensorsTest : public ::testing::Test {
 protected:
  TensorsTest() : TensorsTest(TestServer::Options()) {}
  explicit TensorsTest(const TestServer::Options& options) : server_(options) {}

  grpc::Status Create(const v1::CreateTensorRequest& request) {
    grpc::ClientContext context;
    return tensors_->CreateTensor(&context, request, &info_);
  }

  std::string CreateF32(int64_t rows, int64_t columns) {
    v1::CreateTensorRequest request;
    request.set_dtype(v1::DATA_TYPE_F32);
    request.set_rows(rows);
    request.set_columns(columns);
    const grpc::Status status = Create(request);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return info_.handle();
  }

  static v1::UploadTensorRequest Header(const std::string& handle,
                                        int64_t leading_dimension = 0) {
    v1::UploadTensorRequest request;
    request.mutable_header()->set_handle(handle);
    request.mutable_header()->mutable_layout()->set_leading_dimension(
        leading_dimension);
    return request;
  }

  static v1::UploadTensorRequest Data(const std::string& bytes) {
    v1::UploadTensorRequest request;
    request.set_data(bytes);
    return request;
  }

  grpc::Status Upload(const std::vector<v1::UploadTensorRequest>& messages) {
    grpc::ClientContext context;
    auto writer = tensors_->UploadTensor(&context, &info_);
    for (const auto& message : messages) {
      if (!writer->Write(message)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }

  grpc::Status UploadAll(const std::string& handle, const std::string& bytes,
                         size_t chunk, int64_t leading_dimension = 0) {
    std::vector<v1::UploadTensorRequest> messages = {
        Header(handle, leading_dimension)};
    for (size_t at = 0; at < bytes.size(); at += chunk) {
      messages.push_back(Data(bytes.substr(at, chunk)));
    }
    return Upload(messages);
  }

  // The bytes; empty with `status_` when it fails.
  std::string Download(const std::string& handle, int64_t chunk_bytes = 0,
                       int64_t leading_dimension = 0) {
    v1::DownloadTensorRequest request;
    request.set_handle(handle);
    request.set_chunk_bytes(chunk_bytes);
    request.mutable_layout()->set_leading_dimension(leading_dimension);
    grpc::ClientContext context;
    auto reader = tensors_->DownloadTensor(&context, request);
    std::string bytes;
    v1::DownloadTensorResponse response;
    while (reader->Read(&response)) {
      if (chunk_bytes > 0) {
        EXPECT_LE(response.data().size(), static_cast<size_t>(chunk_bytes));
      }
      bytes += response.data();
    }
    status_ = reader->Finish();
    return bytes;
  }

  grpc::Status Delete(const std::string& handle) {
    v1::DeleteTensorRequest request;
    request.set_handle(handle);
    grpc::ClientContext context;
    v1::DeleteTensorResponse response;
    return tensors_->DeleteTensor(&context, request, &response);
  }

  TestServer server_;
  std::unique_ptr<v1::TensorService::Stub> tensors_ =
      v1::TensorService::NewStub(server_.channel());
  v1::TensorInfo info_;
  grpc::Status status_;
};

std::string Pattern(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>(i * 131 + i / 251);
  }
  return bytes;
}

TEST_F(TensorsTest, StartAsZerosAndSayWhatTheyAre) {
  // Memory that nobody clears holds anything but zeros.
  mallopt(M_PERTURB, 0x5a);
  v1::CreateTensorRequest request;
  request.set_dtype(v1::DATA_TYPE_BF16);
  request.set_rows(3);
  request.set_columns(5);
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

TEST_F(TensorsTest, KeepEveryByteHoweverItIsCut) {
  const std::string handle = CreateF32(7, 11);
  const std::string bytes = Pattern(7 * 11 * 4);
  for (const size_t chunk : {size_t{1}, size_t{3}, size_t{44}, size_t{45},
                             size_t{100}, bytes.size()}) {
    const grpc::Status status = UploadAll(handle, bytes, chunk);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(info_.handle(), handle);
    ASSERT_EQ(Download(handle), bytes);
    ASSERT_TRUE(status_.ok()) << status_.error_message();
  }
  const std::string large = CreateF32(70, 110);
  const std::string more = Pattern(70 * 110 * 4);
  ASSERT_TRUE(UploadAll(large, more, 1000).ok());
  for (const int64_t chunk : {1024, 1025, 4400, 4401, 30799, 30800, 30801}) {
    ASSERT_EQ(Download(large, chunk), more) << chunk;
  }
}

// A message costs more than the bytes that it brings, and one without any could
// come for ever.
TEST_F(TensorsTest, DoNotTravelInCrumbs) {
  const std::string handle = CreateF32(100, 100);
  const std::string bytes = Pattern(100 * 100 * 4);
  ASSERT_TRUE(UploadAll(handle, bytes, 40).ok());  // 1000 messages.
  for (const size_t chunk : {size_t{1}, size_t{30}}) {
    const grpc::Status status = UploadAll(handle, bytes, chunk);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(),
                HasSubstr("allowed: 1024, and one for each 1024 bytes"));
  }
  for (const int64_t chunk : {-1, 1, 1023, (16 << 20) + 1}) {
    EXPECT_EQ(Download(handle, chunk), "");
    EXPECT_EQ(status_.error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_THAT(status_.error_message(),
                HasSubstr(absl::StrCat("chunk_bytes is ", chunk,
                                       "; allowed: 0, which is 1048576, or "
                                       "1024 to 16777216")));
  }
  EXPECT_EQ(Download(handle), bytes);
}

TEST_F(TensorsTest, TravelInPartsWhenTheyAreLarge) {
  // Eleven parts of 8 MiB, the last one short; padded lines on the wire.
  const int64_t rows = 700, columns = 30000, leading_dimension = 30001;
  const std::string handle = CreateF32(rows, columns);
  const std::string bytes =
      Pattern((rows * leading_dimension - 1) * 4);  // No last padding.
  const grpc::Status status =
      UploadAll(handle, bytes, 1 << 20, leading_dimension);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const std::string tight = Download(handle);
  ASSERT_EQ(tight.size(), rows * columns * 4);
  const std::string padded = Download(handle, 0, leading_dimension);
  ASSERT_EQ(padded.size(), bytes.size());
  for (int64_t row = 0; row < rows; ++row) {
    const std::string_view want = std::string_view(bytes).substr(
        row * leading_dimension * 4, columns * 4);
    ASSERT_EQ(std::string_view(tight).substr(row * columns * 4, columns * 4),
              want)
        << row;
    ASSERT_EQ(std::string_view(padded).substr(row * leading_dimension * 4,
                                              columns * 4),
              want)
        << row;
    if (row + 1 < rows) {
      ASSERT_EQ(std::string_view(padded).substr(
                    (row * leading_dimension + columns) * 4, 4),
                std::string_view("\0\0\0\0", 4));
    }
  }
}

TEST_F(TensorsTest, AreNotSentAsMostlyPadding) {
  v1::DownloadTensorRequest request;
  request.set_handle(CreateF32(4, 8));
  request.mutable_layout()->set_leading_dimension((int64_t{1} << 31) - 256);
  grpc::ClientContext context;
  const auto reader = tensors_->DownloadTensor(&context, request);
  v1::DownloadTensorResponse part;
  const bool sent = reader->Read(&part);
  EXPECT_FALSE(sent);
  if (sent) context.TryCancel();
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(),
            "layout.leading_dimension is 2147483392; allowed: 0 or 8 to "
            "5592402");
}

TEST_F(TensorsTest, OfOneThatNobodyTakesAPartIsHeld) {
  v1::DownloadTensorRequest request;
  request.set_handle(CreateF32(4096, 4096));  // Eight parts.
  grpc::ClientContext context;
  const auto reader = tensors_->DownloadTensor(&context, request);
  const auto held_bytes = [&] {
    return server_.server().runtime().responses.held_bytes();
  };
  EXPECT_TRUE(testing::Eventually([&] { return held_bytes() > 0; }));
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_EQ(held_bytes(), 8 << 20);
  context.TryCancel();
  EXPECT_FALSE(reader->Finish().ok());
  EXPECT_TRUE(testing::Eventually([&] { return held_bytes() == 0; }));
}

TEST_F(TensorsTest, MultiplyAndAccumulateInPlace) {
  v1::MatmulRequest request = OnesTimesTwos(4, 6, 5);
  v1::MatmulHeader& header = *request.mutable_header();
  const std::string d = CreateF32(4, 6);
  v1::CreateTensorRequest create;
  create.set_dtype(v1::DATA_TYPE_BF16);
  create.set_rows(4);
  create.set_columns(5);
  ASSERT_TRUE(Create(create).ok());
  ASSERT_TRUE(UploadAll(info_.handle(), request.a(), 7).ok());
  header.mutable_a()->set_tensor(info_.handle());
  request.clear_a();
  header.mutable_c()->set_tensor(d);
  header.mutable_d()->set_tensor(d);
  header.mutable_problem()->set_beta(1);
  auto stub = v1::MatmulService::NewStub(server_.channel());
  for (int i = 0; i < 3; ++i) {
    grpc::ClientContext context;
    v1::MatmulResponse response;
    const grpc::Status status = stub->Matmul(&context, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.d(), "");
  }
  const std::string bytes = Download(d);
  for (int i = 0; i < 24; ++i) {
    ASSERT_EQ(Get(DataType::kF32, bytes.data(), i), 30);
  }
  // D may not be A or B.
  header.mutable_problem()->set_d_type(v1::DATA_TYPE_BF16);
  header.mutable_problem()->set_m(4);
  header.mutable_problem()->set_n(5);
  header.mutable_problem()->set_k(5);
  header.mutable_problem()->set_beta(0);
  request.set_b(std::string(50, '\0'));
  header.mutable_d()->set_tensor(header.a().tensor());
  grpc::ClientContext context;
  v1::MatmulResponse response;
  const grpc::Status status = stub->Matmul(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("d.tensor"));
}

// D = A B + C with A and C given as tensors that hold their transposes.
TEST_F(TensorsTest, StandForTheirTransposesOnRequest) {
  v1::MatmulRequest request = OnesTimesTwos(2, 3, 2);
  v1::MatmulHeader& header = *request.mutable_header();
  header.mutable_problem()->set_a_order(v1::ORDER_COLUMN_MAJOR);
  header.mutable_problem()->set_d_order(v1::ORDER_COLUMN_MAJOR);
  header.mutable_problem()->set_beta(1);
  v1::CreateTensorRequest create;
  create.set_dtype(v1::DATA_TYPE_BF16);
  create.set_rows(2);
  create.set_columns(2);
  ASSERT_TRUE(Create(create).ok());
  // Rows of A^T: 1 2, 4 8.
  ASSERT_TRUE(
      UploadAll(info_.handle(), {"\x80\x3f\x00\x40\x80\x40\x00\x41", 8}, 2)
          .ok());
  request.clear_a();
  header.mutable_a()->set_tensor(info_.handle());
  header.mutable_c()->set_tensor(CreateF32(3, 2));
  auto stub = v1::MatmulService::NewStub(server_.channel());
  const auto multiply = [&](v1::MatmulResponse& response) {
    grpc::ClientContext context;
    return stub->Matmul(&context, request, &response);
  };
  v1::MatmulResponse response;
  // A square tensor of the other order is not taken for its transpose.
  EXPECT_EQ(multiply(response).error_code(), grpc::INVALID_ARGUMENT);
  header.mutable_a()->set_transposed(true);
  header.mutable_c()->set_transposed(true);
  const grpc::Status status = multiply(response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  // Rows of A: 1 4 and 2 8; B is all twos; D is column-major.
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(Get(DataType::kF32, response.d().data(), i), i % 2 ? 20 : 10);
  }
  header.mutable_a()->mutable_inline_();
  EXPECT_THAT(multiply(response).error_message(), HasSubstr("a.transposed"));
}

TEST_F(TensorsTest, MustFitTheProblem) {
  const std::string handle = CreateF32(3, 5);
  v1::MatmulRequest request = OnesTimesTwos(3, 4, 5);
  request.clear_a();
  request.mutable_header()->mutable_a()->set_tensor(handle);
  auto stub = v1::MatmulService::NewStub(server_.channel());
  grpc::ClientContext context;
  v1::MatmulResponse response;
  const grpc::Status status = stub->Matmul(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(),
            "a.tensor is f32 3 x 5 row_major; allowed for this problem: bf16 "
            "3 x 5 row_major");
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
    v1::CreateTensorRequest request;
    request.set_dtype(v1::DATA_TYPE_F32);
    request.set_rows(1);
    request.set_columns(1);
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
  v1::CreateTensorRequest request;
  request.set_dtype(v1::DATA_TYPE_F32);
  request.set_rows(4 << 10);
  request.set_columns(4 << 10);  // 64 MiB, which are cleared for a moment.
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
  v1::CreateTensorRequest request;
  request.set_dtype(v1::DATA_TYPE_F32);
  request.set_rows(1);
  request.set_columns(1);
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

TEST_F(TensorsTest, UploadsThatDoNotFitAreRefused) {
  const std::string handle = CreateF32(2, 3);
  const std::string bytes = Pattern(24);
  const auto refused = [&](const std::vector<v1::UploadTensorRequest>& messages,
                           const char* says) {
    const grpc::Status status = Upload(messages);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr(says));
  };
  refused({}, "missing");
  refused({Data(bytes)}, "header is missing");
  refused({Header(handle)}, "data has 0 bytes; allowed for its shape: 24");
  refused({Header(handle), Data("12345")}, "data has 5 bytes");
  refused({Header(handle), Data(bytes), Data("x")}, "beyond the 24 bytes");
  refused({Header(handle), Header(handle), Data(bytes)}, "header comes again");
  refused({Header(handle, 2), Data(bytes)}, "header.layout.leading_dimension");
  v1::UploadTensorRequest order = Header(handle);
  order.mutable_header()->mutable_layout()->set_order(v1::ORDER_COLUMN_MAJOR);
  refused({order, Data(bytes)}, "header.layout.order");
  EXPECT_TRUE(UploadAll(handle, bytes, 24).ok());
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
    v1::CreateTensorRequest request;
    request.set_dtype(v1::DATA_TYPE_F32);
    request.set_rows(2);
    request.set_columns(2);
    bad.spoil(request);
    const grpc::Status status = Create(request);
    EXPECT_EQ(status.error_code(), bad.code) << bad.says;
    EXPECT_THAT(status.error_message(), HasSubstr(bad.says));
  }
  EXPECT_EQ(server_.engine().tensors().count(), 0);
}

TEST_F(TensorsTest, AnAbandonedUploadLeavesTheDaemonWell) {
  const std::string handle = CreateF32(1000, 1000);
  {
    grpc::ClientContext context;
    auto writer = tensors_->UploadTensor(&context, &info_);
    ASSERT_TRUE(writer->Write(Header(handle)));
    writer->Write(Data(Pattern(100000)));
    context.TryCancel();
    EXPECT_EQ(writer->Finish().error_code(), grpc::CANCELLED);
  }
  EXPECT_TRUE(UploadAll(handle, Pattern(4000000), 1 << 20).ok());
  EXPECT_EQ(Download(handle), Pattern(4000000));
}

TEST_F(TensorsTest, AnAbandonedDownloadLeavesTheDaemonWell) {
  const std::string handle = CreateF32(2000, 2000);
  v1::DownloadTensorRequest request;
  request.set_handle(handle);
  {
    grpc::ClientContext context;
    auto reader = tensors_->DownloadTensor(&context, request);
    v1::DownloadTensorResponse response;
    ASSERT_TRUE(reader->Read(&response));
    context.TryCancel();
    EXPECT_EQ(reader->Finish().error_code(), grpc::CANCELLED);
  }
  EXPECT_EQ(Download(handle).size(), 16000000);
}

}  // namespace
}  // namespace gemmd
