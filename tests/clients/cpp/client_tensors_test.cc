// Tensors of the client: how their elements travel, and what of a daemon's
// words about them is taken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/clients/cpp/client_fixture.h"

namespace gemmd::client {
namespace {

using ::testing::HasSubstr;

TEST_F(ClientTest, TensorsTravelInChunks) {
  v1::CreateTensorRequest request;
  request.set_rows(7);
  const auto info = client_->CreateTensor(request);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->rows(), 7);
  std::string bytes(5 << 20, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  EXPECT_EQ(client_->UploadTensor("handle", {}, bytes), absl::OkStatus());
  EXPECT_EQ(tensors_.bytes(), bytes);
  EXPECT_EQ(tensors_.largest(), size_t{2} << 20);
  std::string back(bytes.size(), '\0');
  EXPECT_EQ(client_->DownloadTensor("handle", {},
                                    absl::MakeSpan(back.data(), back.size())),
            absl::OkStatus());
  EXPECT_EQ(back, bytes);
}

// As a daemon of tomorrow may.
TEST_F(ClientTest, TensorsOfAnUnknownKindAreNoneToWorkWith) {
  v1::TensorInfo info;
  info.set_dtype(v1::DATA_TYPE_F16);
  info.set_rows(2);
  info.set_columns(3);
  tensors_.Tell(info);
  EXPECT_EQ(client_->DescribeTensor("handle")->columns(), 3);
  v1::TensorInfo type = info, rows = info, columns = info, none;
  // Whose bytes, counted in 64 bits, would be none.
  v1::TensorInfo huge = info, many = info;
  huge.set_rows(int64_t{1} << 62);
  huge.set_columns(int64_t{1} << 62);
  many.set_rows(int64_t{1} << 31);
  many.set_columns(int64_t{1} << 1);
  many.set_count(int64_t{1} << 31);
  type.set_dtype(static_cast<v1::DataType>(99));
  rows.set_rows(0);
  columns.set_columns(-3);
  for (const v1::TensorInfo& odd : {type, rows, columns, none, huge, many}) {
    tensors_.Tell(odd);
    EXPECT_EQ(client_->DescribeTensor("handle").status().code(),
              absl::StatusCode::kInternal)
        << odd.ShortDebugString();
  }
}

TEST_F(ClientTest, BadTransfersSayWhy) {
  EXPECT_EQ(client_->UploadTensor("other", {}, std::string(9 << 20, 'x')),
            absl::NotFoundError("no such tensor"));
  tensors_.Hold("12345678");
  std::string back(4, '\0');
  EXPECT_THAT(client_
                  ->DownloadTensor("handle", {},
                                   absl::MakeSpan(back.data(), back.size()))
                  .message(),
              HasSubstr("more bytes"));
  back.resize(12);
  EXPECT_THAT(client_
                  ->DownloadTensor("handle", {},
                                   absl::MakeSpan(back.data(), back.size()))
                  .message(),
              HasSubstr("4 bytes less"));
}

}  // namespace
}  // namespace gemmd::client
