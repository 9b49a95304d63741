// Products whose operands and results lie in memory that clients share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/integration/eventually.h"
#include "tests/integration/shared_region.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;
using testing::kRegionBytes;
using testing::OnesTimesTwos;
using testing::SharedRegion;
using testing::TestServer;

class RegionsTest : public ::testing::Test {
 protected:
  grpc::Status Multiply(const v1::MatmulRequest& request,
                        v1::MatmulResponse* response = nullptr) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(1)));
    v1::MatmulResponse unused;
    return v1::MatmulService::NewStub(server_.unix_channel())
        ->Matmul(&context, request, response == nullptr ? &unused : response);
  }
  void ExpectRefused(const v1::MatmulRequest& request, const std::string& why,
                     StatusCode code = StatusCode::INVALID_ARGUMENT) {
    const grpc::Status status = Multiply(request);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(why));
  }

  // Ones times twos of 8 x 16 and 16 x 8, A of which lies in the region at
  // `offset`.
  v1::MatmulRequest WithA(int64_t offset) {
    v1::MatmulRequest request = OnesTimesTwos(8, 8, 16);
    region_.Put(std::clamp<int64_t>(offset, 0, kRegionBytes - 256),
                request.a());
    request.clear_a();
    region_.Name(offset,
                 *request.mutable_header()->mutable_a()->mutable_region());
    return request;
  }

  TestServer server_;
  SharedRegion region_{server_};
};

TEST_F(RegionsTest, OperandsAndResultsStayWhereTheyAre) {
  const v1::MatmulRequest sent = OnesTimesTwos(8, 8, 16);
  v1::MatmulResponse expected;
  ASSERT_TRUE(Multiply(sent, &expected).ok());
  v1::MatmulRequest request = WithA(7);
  region_.Put(1000, request.b());
  request.clear_b();
  v1::MatmulHeader& header = *request.mutable_header();
  region_.Name(1000, *header.mutable_b()->mutable_region());
  region_.Name(kRegionBytes - expected.d().size(),
               *header.mutable_d()->mutable_region());
  v1::MatmulResponse response;
  const grpc::Status status = Multiply(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(response.d().empty());
  EXPECT_EQ(
      region_.Take(kRegionBytes - expected.d().size(), expected.d().size()),
      expected.d());
}

TEST_F(RegionsTest, BothResultsOrEitherGoThere) {
  v1::MatmulRequest request = WithA(0);
  v1::MatmulHeader& header = *request.mutable_header();
  header.mutable_problem()->set_alpha(-1);
  header.mutable_problem()->set_activation(v1::ACTIVATION_RELU);
  header.mutable_problem()->mutable_epilogue()->set_auxiliary(true);
  v1::MatmulResponse expected;
  ASSERT_TRUE(Multiply(request, &expected).ok());
  const size_t size = expected.d().size();
  ASSERT_NE(expected.auxiliary(), expected.d());
  // Over A, which is read by then.
  region_.Name(0, *header.mutable_auxiliary()->mutable_region());
  v1::MatmulResponse response;
  ASSERT_TRUE(Multiply(request, &response).ok());
  EXPECT_EQ(response.d(), expected.d());
  EXPECT_EQ(response.auxiliary(), "");
  EXPECT_EQ(response.execution().paths().auxiliary(), v1::PATH_SHARED);
  EXPECT_TRUE(region_.Take(0, size) == expected.auxiliary());
  // One behind the other.
  request.mutable_header()->mutable_a()->mutable_region()->set_offset(8192);
  region_.Put(8192, OnesTimesTwos(8, 8, 16).a());
  region_.Name(size, *header.mutable_d()->mutable_region());
  ASSERT_TRUE(Multiply(request, &response).ok());
  EXPECT_TRUE(region_.Take(0, 2 * size) == expected.auxiliary() + expected.d());
}

TEST_F(RegionsTest, BytesBetweenLinesAreLeftAlone) {
  v1::MatmulRequest request = OnesTimesTwos(3, 4, 16);
  v1::MatmulResponse expected;
  ASSERT_TRUE(Multiply(request, &expected).ok());
  std::memset(region_.bytes(), '.', kRegionBytes);
  v1::RegionPart& part =
      *request.mutable_header()->mutable_d()->mutable_region();
  region_.Name(100, part);
  part.mutable_layout()->set_leading_dimension(7);
  ASSERT_TRUE(Multiply(request).ok());
  const size_t line = expected.d().size() / 3;
  const size_t pitch = line / 4 * 7;
  std::string wanted(kRegionBytes, '.');
  for (size_t i = 0; i < 3; ++i) {
    wanted.replace(100 + i * pitch, line, expected.d(), i * line, line);
  }
  EXPECT_TRUE(region_.Take(0, kRegionBytes) == wanted);
}

TEST_F(RegionsTest, OneMatrixServesABatch) {
  v1::MatmulRequest request = OnesTimesTwos(8, 8, 16);
  v1::MatmulResponse expected;
  ASSERT_TRUE(Multiply(request, &expected).ok());
  request = WithA(64);
  request.mutable_header()->mutable_problem()->set_batch(3);
  request.mutable_header()
      ->mutable_a()
      ->mutable_region()
      ->mutable_layout()
      ->set_batch_stride(0);
  request.set_b(request.b() + request.b() + request.b());
  v1::MatmulResponse response;
  const grpc::Status status = Multiply(request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.d(), expected.d() + expected.d() + expected.d());
}

TEST_F(RegionsTest, WhatIsBeyondARegionIsRefused) {
  EXPECT_TRUE(Multiply(WithA(kRegionBytes - 256)).ok());
  for (const int64_t offset :
       {int64_t{-1}, static_cast<int64_t>(kRegionBytes - 255),
        static_cast<int64_t>(kRegionBytes),
        static_cast<int64_t>(kRegionBytes + 1),
        std::numeric_limits<int64_t>::max(),
        std::numeric_limits<int64_t>::min()}) {
    ExpectRefused(WithA(offset),
                  absl::StrCat("a.region.offset is ", offset,
                               " and the matrix has 256 bytes; allowed: within "
                               "the region's 1048576"));
  }
  v1::MatmulRequest request = WithA(0);
  v1::Layout& layout = *request.mutable_header()
                            ->mutable_a()
                            ->mutable_region()
                            ->mutable_layout();
  layout.set_leading_dimension(1 << 30);
  ExpectRefused(request, "allowed: within the region's");
  layout.set_leading_dimension(15);
  ExpectRefused(request, "a.region.layout.leading_dimension");
  request = OnesTimesTwos(8, 8, 16);
  region_.Name(kRegionBytes - 1,
               *request.mutable_header()->mutable_d()->mutable_region());
  ExpectRefused(request, "d.region.offset is 1048575");
}

TEST_F(RegionsTest, WhatDoesNotGoWithARegionIsRefused) {
  v1::MatmulRequest request = WithA(0);
  request.set_a("bytes");
  ExpectRefused(request,
                "a has 5 bytes; allowed: 0, because its source is a "
                "region");
  request = WithA(0);
  request.mutable_header()->mutable_a()->set_transposed(true);
  ExpectRefused(request, "a.transposed is true");
  request = WithA(0);
  request.mutable_header()->mutable_problem()->set_sparsity(v1::SPARSITY_2_4);
  ExpectRefused(request, "a.region is given for sparse elements");
  request = WithA(0);
  request.mutable_header()
      ->mutable_problem()
      ->mutable_epilogue()
      ->set_auxiliary(true);
  request.mutable_header()->mutable_problem()->set_activation(
      v1::ACTIVATION_RELU);
  region_.Name(4096, *request.mutable_header()->mutable_d()->mutable_region());
  region_.Name(
      4100, *request.mutable_header()->mutable_auxiliary()->mutable_region());
  ExpectRefused(request, "auxiliary and d overlap");
}

TEST_F(RegionsTest, BatchesOfResultsHaveNoGaps) {
  v1::MatmulRequest request = OnesTimesTwos(8, 8, 16);
  v1::MatmulHeader& header = *request.mutable_header();
  header.mutable_problem()->set_batch(2);
  header.mutable_a()->mutable_inline_()->set_batch_stride(0);
  header.mutable_b()->mutable_inline_()->set_batch_stride(0);
  region_.Name(0, *header.mutable_d()->mutable_region());
  EXPECT_TRUE(Multiply(request).ok());
  header.mutable_d()->mutable_region()->mutable_layout()->set_batch_stride(72);
  ExpectRefused(request,
                "d.region.layout.batch_stride is 72; allowed here: absent or "
                "64");
}

TEST_F(RegionsTest, AGroupMayHaveThem) {
  v1::MatmulGroupedRequest groups;
  *groups.add_groups() = WithA(0);
  *groups.add_groups() = OnesTimesTwos(8, 8, 16);
  region_.Name(8192, *groups.mutable_groups(1)
                          ->mutable_header()
                          ->mutable_d()
                          ->mutable_region());
  grpc::ClientContext context;
  v1::MatmulGroupedResponse response;
  const grpc::Status status = v1::MatmulService::NewStub(server_.unix_channel())
                                  ->MatmulGrouped(&context, groups, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(response.groups(1).d().empty());
  EXPECT_EQ(region_.Take(8192, response.groups(0).d().size()),
            response.groups(0).d());
}

// Tensors whose elements lie in a region.
class TensorRegionsTest : public RegionsTest {
 protected:
  // `count` matrices of 5 lines of 12 bytes.
  std::string Create(v1::Sparsity sparsity = v1::SPARSITY_UNSPECIFIED,
                     int64_t count = 2) {
    v1::CreateTensorRequest request;
    request.set_dtype(sparsity == v1::SPARSITY_UNSPECIFIED
                          ? v1::DATA_TYPE_S8
                          : v1::DATA_TYPE_BF16);
    request.set_rows(5);
    request.set_columns(12);
    request.set_count(count);
    request.set_sparsity(sparsity);
    grpc::ClientContext context;
    v1::TensorInfo info;
    EXPECT_TRUE(stub_->CreateTensor(&context, request, &info).ok());
    return info.handle();
  }
  v1::UploadTensorRequest UploadFrom(int64_t offset, int64_t pitch) {
    v1::UploadTensorRequest request;
    request.mutable_header()->set_handle(tensor_);
    v1::RegionPart& part = *request.mutable_header()->mutable_region();
    region_.Name(offset, part);
    part.mutable_layout()->set_leading_dimension(pitch);
    return request;
  }
  grpc::Status Upload(const v1::UploadTensorRequest& request,
                      const std::string& more = "") {
    grpc::ClientContext context;
    v1::TensorInfo info;
    const auto stream = stub_->UploadTensor(&context, &info);
    bool open = stream->Write(request);
    if (!more.empty()) {
      v1::UploadTensorRequest data;
      data.set_data(more);
      open = open && stream->Write(data);
    }
    if (open) stream->WritesDone();
    return stream->Finish();
  }
  v1::DownloadTensorRequest DownloadTo(int64_t offset, int64_t pitch) {
    v1::DownloadTensorRequest request;
    request.set_handle(tensor_);
    region_.Name(offset, *request.mutable_region());
    request.mutable_region()->mutable_layout()->set_leading_dimension(pitch);
    return request;
  }
  // All that comes is added to `data`.
  grpc::Status Download(const v1::DownloadTensorRequest& request,
                        std::string* data = nullptr) {
    grpc::ClientContext context;
    const auto stream = stub_->DownloadTensor(&context, request);
    v1::DownloadTensorResponse response;
    while (stream->Read(&response)) {
      if (data != nullptr) *data += response.data();
    }
    return stream->Finish();
  }
  void ExpectNot(const grpc::Status& status, const std::string& why,
                 StatusCode code = StatusCode::INVALID_ARGUMENT) {
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(why));
  }

  const std::unique_ptr<v1::TensorService::Stub> stub_ =
      v1::TensorService::NewStub(server_.unix_channel());
  std::string tensor_ = Create();
};

constexpr int64_t kLines = 10, kWidth = 12, kPitch = 15;

std::string Letters(int64_t count) {
  std::string letters;
  for (int64_t i = 0; i < count; ++i)
    letters += static_cast<char>('a' + i % 26);
  return letters;
}

TEST_F(TensorRegionsTest, ElementsComeAndGo) {
  const std::string elements = Letters(kLines * kWidth);
  for (int64_t i = 0; i < kLines; ++i) {
    region_.Put(33 + i * kPitch, elements.substr(i * kWidth, kWidth));
  }
  grpc::Status status = Upload(UploadFrom(33, kPitch));
  ASSERT_TRUE(status.ok()) << status.error_message();
  v1::DownloadTensorRequest plain;
  plain.set_handle(tensor_);
  std::string sent;
  ASSERT_TRUE(Download(plain, &sent).ok());
  EXPECT_EQ(sent, elements);

  std::memset(region_.bytes(), '.', kRegionBytes);
  const int64_t end = (kLines - 1) * kPitch + kWidth;
  sent.clear();
  status = Download(DownloadTo(kRegionBytes - end, kPitch), &sent);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(sent, "");
  std::string wanted(kRegionBytes, '.');
  for (int64_t i = 0; i < kLines; ++i) {
    wanted.replace(kRegionBytes - end + i * kPitch, kWidth, elements,
                   i * kWidth, kWidth);
  }
  EXPECT_TRUE(region_.Take(0, kRegionBytes) == wanted);
}

TEST_F(TensorRegionsTest, WhatIsRefusedChangesNothing) {
  region_.Put(0, Letters(kLines * kWidth));
  ASSERT_TRUE(Upload(UploadFrom(0, 0)).ok());
  ExpectNot(Upload(UploadFrom(kRegionBytes - 119, 0)),
            "header.region.offset is 1048457 and the matrix has 120 bytes");
  ExpectNot(Upload(UploadFrom(-1, 0)), "header.region.offset is -1");
  ExpectNot(Upload(UploadFrom(0, 11)),
            "header.region.layout.leading_dimension");
  v1::UploadTensorRequest gaps = UploadFrom(0, 0);
  gaps.mutable_header()->mutable_region()->mutable_layout()->set_batch_stride(
      64);
  ExpectNot(Upload(gaps), "batch_stride is 64; allowed here: absent or 60");
  ExpectNot(Upload(UploadFrom(0, 0), "data"),
            "data are given; allowed: none, because the elements are in a "
            "region");
  v1::UploadTensorRequest upload = UploadFrom(0, 0);
  upload.mutable_header()->mutable_layout();
  ExpectNot(Upload(upload), "header.layout is given");
  upload = UploadFrom(0, 0);
  upload.mutable_header()->mutable_part();
  ExpectNot(Upload(upload), "header.part is given");
  upload = UploadFrom(0, 0);
  upload.mutable_header()->mutable_region()->set_region("none");
  ExpectNot(Upload(upload), "header.region: no such region",
            StatusCode::NOT_FOUND);

  ExpectNot(Download(DownloadTo(kRegionBytes - 119, 0)),
            "region.offset is 1048457 and the matrix has 120 bytes");
  ExpectNot(Download(DownloadTo(0, 11)), "region.layout.leading_dimension");
  v1::DownloadTensorRequest download = DownloadTo(0, 0);
  download.set_chunk_bytes(1);
  ExpectNot(Download(download), "chunk_bytes is given");
  download = DownloadTo(0, 0);
  download.mutable_region()->mutable_layout()->set_batch_stride(64);
  ExpectNot(Download(download),
            "region.layout.batch_stride is 64; allowed here: absent or 60");
  download = DownloadTo(0, 0);
  download.mutable_layout();
  ExpectNot(Download(download), "layout is given");

  ASSERT_TRUE(Download(DownloadTo(4096, 0)).ok());
  EXPECT_EQ(region_.Take(4096, kLines * kWidth), Letters(kLines * kWidth));
}

TEST_F(TensorRegionsTest, SparseElementsAreNotRead) {
  tensor_ = Create(v1::SPARSITY_2_4, 1);
  ExpectNot(Upload(UploadFrom(0, 0)),
            "header.region is given for sparse elements");
  EXPECT_TRUE(Download(DownloadTo(0, 0)).ok());
}

TEST_F(RegionsTest, ARegionThatIsGoneIsUnknown) {
  v1::MatmulRequest request = WithA(0);
  EXPECT_TRUE(Multiply(request).ok());
  region_.Close();
  EXPECT_TRUE(testing::Eventually(
      [&] { return Multiply(request).error_code() == StatusCode::NOT_FOUND; }));
  ExpectRefused(request, "a.region: no such region", StatusCode::NOT_FOUND);
}

TEST_F(RegionsTest, TheDaemonSaysHowMuchThereMayBe) {
  grpc::ClientContext context;
  v1::ServerInfo info;
  ASSERT_TRUE(v1::ServerService::NewStub(server_.channel())
                  ->GetServerInfo(&context, {}, &info)
                  .ok());
  EXPECT_EQ(info.limits().max_region_bytes(), int64_t{4} << 30);
}

}  // namespace
}  // namespace gemmd
