// How the elements of tensors travel, up and down.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/integration/eventually.h"
#include "tests/integration/tensors_fixture.h"

namespace gemmd {
namespace {

using ::testing::HasSubstr;
using testing::Pattern;
using testing::TensorsTest;

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
  EXPECT_EQ(Download(handle, 1024), bytes);
  EXPECT_EQ(Download(handle, 16 << 20), bytes);
  // Of a size that is allowed there may be any number.
  const std::string large = CreateF32(500, 1000);
  EXPECT_TRUE(UploadAll(large, Pattern(500 * 1000 * 4), 1024).ok());
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

TEST_F(TensorsTest, HavePaddingBehindLinesAloneThatTravelInPieces) {
  const int64_t columns = 2'500'000;  // More than a part of 8 MiB.
  const std::string handle = CreateF32(3, columns);
  std::string bytes = Pattern((3 * columns + 2) * 4);
  for (const int64_t row : {0, 1}) {
    bytes.replace(((row + 1) * columns + row) * 4, 4, 4, '\0');
  }
  ASSERT_TRUE(UploadAll(handle, bytes, 1 << 20, columns + 1).ok());
  EXPECT_TRUE(Download(handle, 0, columns + 1) == bytes);
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
