// Tensors in parts: uploads that several streams bring together, and downloads
// of some lines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/eventually.h"
#include "tests/integration/identity_fixture.h"
#include "tests/integration/raw_call.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using testing::Eventually;
using ::testing::HasSubstr;
using testing::TestServer;

constexpr char kTransfer[] = "0123456789abcdef";

std::string Pattern(size_t size, int seed) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>(i * 131 + i / 251 + seed);
  }
  return bytes;
}

v1::LineRange Lines(int64_t first, int64_t count) {
  v1::LineRange lines;
  lines.set_first(first);
  lines.set_count(count);
  return lines;
}

v1::UploadTensorRequest Header(const std::string& handle, v1::LineRange lines,
                               const std::string& transfer = kTransfer) {
  v1::UploadTensorRequest request;
  request.mutable_header()->set_handle(handle);
  v1::UploadTensorRequest::Part& part =
      *request.mutable_header()->mutable_part();
  part.set_transfer(transfer);
  *part.mutable_lines() = lines;
  return request;
}

// A stream of one part, on a connection of its own.
class Stream {
 public:
  Stream(const std::string& address, const v1::UploadTensorRequest& header,
         const testing::PrincipalClient* as = nullptr)
      : stub_(v1::TensorService::NewStub(testing::Connect(address))) {
    // Whoever waits in vain ends.
    context_.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
    // A busy machine may fail to connect at first.
    context_.set_wait_for_ready(true);
    if (as != nullptr) as->Prepare(context_);
    writer_ = stub_->UploadTensor(&context_, &info_);
    writer_->Write(header);
  }

  void Send(const std::string& bytes) {
    v1::UploadTensorRequest request;
    request.set_data(bytes);
    writer_->Write(request);
  }
  void End() { writer_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }
  grpc::Status Finish() { return writer_->Finish(); }
  const v1::TensorInfo& info() const { return info_; }

 private:
  const std::unique_ptr<v1::TensorService::Stub> stub_;
  grpc::ClientContext context_;
  v1::TensorInfo info_;
  std::unique_ptr<grpc::ClientWriter<v1::UploadTensorRequest>> writer_;
};

class TransfersTest : public ::testing::Test {
 protected:
  static TestServer::Options Options() {
    TestServer::Options options;
    options.limits.stall_timeout = absl::Seconds(3);
    return options;
  }
  TransfersTest() : server_(Options()) {}

  std::string Create(const v1::CreateTensorRequest& request) {
    grpc::ClientContext context;
    v1::TensorInfo info;
    const grpc::Status status =
        tensors_->CreateTensor(&context, request, &info);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_TRUE(info.has_version());
    EXPECT_EQ(info.version(), 0);
    bytes_ = server_.engine().tensors().bytes();
    return info.handle();
  }
  std::string CreateU8(int64_t rows, int64_t columns, int64_t count = 1) {
    v1::CreateTensorRequest request;
    request.set_dtype(v1::DATA_TYPE_U8);
    request.set_rows(rows);
    request.set_columns(columns);
    request.set_count(count);
    return Create(request);
  }

  std::string Download(const v1::DownloadTensorRequest& request) {
    grpc::ClientContext context;
    const auto reader = tensors_->DownloadTensor(&context, request);
    std::string bytes;
    version_.reset();
    v1::DownloadTensorResponse response;
    for (bool first = true; reader->Read(&response); first = false) {
      if (first) version_ = response.version();
      bytes += response.data();
    }
    status_ = reader->Finish();
    return bytes;
  }
  std::string Download(const std::string& handle) {
    v1::DownloadTensorRequest request;
    request.set_handle(handle);
    return Download(request);
  }

  // Nothing is held of uploads that have ended.
  void ExpectNothingHeld() {
    EXPECT_TRUE(Eventually([&] {
      return server_.engine().tensors().bytes() == bytes_;
    })) << server_.engine().tensors().bytes()
        << " " << bytes_;
  }

  TestServer server_;
  std::unique_ptr<v1::TensorService::Stub> tensors_ =
      v1::TensorService::NewStub(server_.channel());
  int64_t bytes_ = 0;  // Of the tensors.
  std::optional<int64_t> version_;
  grpc::Status status_;
};

TEST_F(TransfersTest, PartsOfSeveralConnectionsMakeOneUpload) {
  const std::string handle = CreateU8(70, 50'000, 3);
  const std::string want = Pattern(210 * 50'000, 1);
  // In any order, across matrices, at the same time.
  const std::vector<std::pair<int64_t, int64_t>> parts = {
      {100, 90}, {0, 1}, {190, 20}, {1, 99}};
  std::vector<std::thread> clients;
  for (const auto& [first, count] : parts) {
    clients.emplace_back([&, first = first, count = count] {
      Stream stream(server_.address(), Header(handle, Lines(first, count)));
      for (int64_t i = 0; i < count * 50'000; i += 77'777) {
        stream.Send(want.substr(first * 50'000 + i,
                                std::min<int64_t>(77'777, count * 50'000 - i)));
      }
      stream.End();
      const grpc::Status status = stream.Finish();
      EXPECT_TRUE(status.ok()) << status.error_message();
      EXPECT_EQ(stream.info().version(), 1);
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(Download(handle) == want);
  EXPECT_EQ(version_, 1);
  ExpectNothingHeld();
}

TEST_F(TransfersTest, LinesLieAsEachStreamSays) {
  v1::CreateTensorRequest request;
  request.set_dtype(v1::DATA_TYPE_BF16);
  request.set_rows(3);
  request.set_columns(5);
  request.set_order(v1::ORDER_COLUMN_MAJOR);
  const std::string handle = Create(request);
  v1::UploadTensorRequest padded = Header(handle, Lines(0, 2));
  padded.mutable_header()->mutable_layout()->set_order(v1::ORDER_COLUMN_MAJOR);
  v1::UploadTensorRequest tight = Header(handle, Lines(2, 3));
  *tight.mutable_header()->mutable_layout() = padded.header().layout();
  padded.mutable_header()->mutable_layout()->set_leading_dimension(4);
  Stream one(server_.address(), padded);
  Stream two(server_.address(), tight);
  one.Send("aabbcc..ddeeff");
  one.End();
  two.Send("gghhiijjkkllmmnnoo");
  two.End();
  EXPECT_TRUE(one.Finish().ok());
  EXPECT_TRUE(two.Finish().ok());
  v1::DownloadTensorRequest download;
  download.set_handle(handle);
  download.mutable_layout()->set_order(v1::ORDER_COLUMN_MAJOR);
  EXPECT_EQ(Download(download), "aabbccddeeffgghhiijjkkllmmnnoo");
  *download.mutable_lines() = Lines(1, 2);
  download.mutable_layout()->set_leading_dimension(4);
  EXPECT_EQ(Download(download), std::string("ddeeff\0\0gghhii", 14));
}

TEST_F(TransfersTest, AllElementsAreNewAtOnce) {
  const std::string handle = CreateU8(4, 1);
  Stream first(server_.address(), Header(handle, Lines(0, 2)));
  first.Send("ab");
  first.End();
  Stream second(server_.address(), Header(handle, Lines(2, 2)));
  EXPECT_EQ(Download(handle), std::string(4, '\0'));
  EXPECT_EQ(version_, 0);
  second.Send("cd");
  second.End();
  EXPECT_TRUE(first.Finish().ok());
  EXPECT_TRUE(second.Finish().ok());
  EXPECT_EQ(Download(handle), "abcd");
}

TEST_F(TransfersTest, APartThatIsInterruptedIsTheEndOfAll) {
  const std::string handle = CreateU8(1000, 1000);
  Stream landed(server_.address(), Header(handle, Lines(0, 300)));
  landed.Send(Pattern(300'000, 1));
  landed.End();
  Stream wrong(server_.address(), Header(handle, Lines(300, 300)));
  wrong.Send(Pattern(299'999, 1));
  Stream gone(server_.address(), Header(handle, Lines(600, 400)));
  gone.Send(Pattern(1000, 1));
  ASSERT_TRUE(Eventually([&] {
    return server_.engine().tensors().bytes() == 2 * bytes_;
  })) << "the quota counts it once";
  wrong.End();
  EXPECT_EQ(wrong.Finish().error_code(), grpc::INVALID_ARGUMENT);
  const grpc::Status told = landed.Finish();
  EXPECT_EQ(told.error_code(), grpc::ABORTED);
  EXPECT_THAT(told.error_message(), HasSubstr("lines 300 to 599"));
  // One that still sends hears of it with its next message.
  gone.Send(Pattern(1000, 1));
  EXPECT_EQ(gone.Finish().error_code(), grpc::ABORTED);
  ExpectNothingHeld();
  EXPECT_EQ(Download(handle), std::string(1'000'000, '\0'));
  // Who comes now is late.
  Stream late(server_.address(), Header(handle, Lines(300, 300)));
  const grpc::Status late_told = late.Finish();
  EXPECT_EQ(late_told.error_code(), grpc::ABORTED);
  EXPECT_THAT(late_told.error_message(), HasSubstr("had ended"));
}

TEST_F(TransfersTest, AClientThatGoesWhileItWaitsIsTheEndOfAll) {
  const std::string handle = CreateU8(4, 1);
  Stream first(server_.address(), Header(handle, Lines(0, 2)));
  Stream second(server_.address(), Header(handle, Lines(2, 1)));
  for (Stream* stream : {&first, &second}) {
    stream->Send(stream == &first ? "ab" : "c");
    stream->End();
  }
  const absl::Time start = absl::Now();
  absl::SleepFor(absl::Milliseconds(100));
  first.Cancel();
  EXPECT_EQ(first.Finish().error_code(), grpc::CANCELLED);
  EXPECT_EQ(second.Finish().error_code(), grpc::ABORTED);
  EXPECT_LT(absl::Now() - start, absl::Seconds(2)) << "that waits for nothing";
  ExpectNothingHeld();
}

TEST_F(TransfersTest, PartsThatNeverComeEndIt) {
  const std::string handle = CreateU8(9, 1);
  Stream first(server_.address(), Header(handle, Lines(0, 3)));
  Stream last(server_.address(), Header(handle, Lines(5, 4)));
  first.Send("abc");
  first.End();
  last.Send("defg");
  last.End();
  for (Stream* stream : {&first, &last}) {
    const grpc::Status told = stream->Finish();
    EXPECT_EQ(told.error_code(), grpc::ABORTED);
    EXPECT_THAT(told.error_message(), HasSubstr("lines 3 to 4"));
  }
  ExpectNothingHeld();
}

TEST_F(TransfersTest, WhatIsNoPartIsRefusedAndChangesNothing) {
  const std::string handle = CreateU8(4, 1);
  Stream first(server_.address(), Header(handle, Lines(0, 2)));
  first.Send("ab");
  first.End();
  ASSERT_TRUE(Eventually(
      [&] { return server_.engine().tensors().bytes() == 2 * bytes_; }));
  const auto refused = [&](const v1::UploadTensorRequest& header) {
    Stream stream(server_.address(), header);
    const grpc::Status status = stream.Finish();
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    return status.error_message();
  };
  EXPECT_THAT(refused(Header(handle, Lines(1, 2))), HasSubstr("lines 0 to 1"));
  EXPECT_THAT(refused(Header(handle, Lines(4, 1))), HasSubstr("lines.first"));
  EXPECT_THAT(refused(Header(handle, Lines(-1, 1))), HasSubstr("lines.first"));
  EXPECT_THAT(refused(Header(handle, Lines(2, 3))), HasSubstr("lines.count"));
  EXPECT_THAT(refused(Header(handle, Lines(2, 0))), HasSubstr("lines.count"));
  EXPECT_THAT(refused(Header(handle, Lines(2, 2), "short")),
              HasSubstr("part.transfer has 5 bytes"));
  EXPECT_THAT(refused(Header(handle, Lines(2, 2), std::string(65, 'x'))),
              HasSubstr("part.transfer has 65 bytes"));
  // Of another tensor, or another name: another upload.
  Stream foreign(server_.address(),
                 Header(handle, Lines(0, 2), Pattern(16, 3)));
  foreign.Cancel();
  EXPECT_EQ(foreign.Finish().error_code(), grpc::CANCELLED);
  Stream longest(server_.address(),
                 Header(handle, Lines(0, 2), std::string(64, 'x')));
  longest.End();
  EXPECT_THAT(longest.Finish().error_message(), HasSubstr("data has 0 bytes"));
  Stream second(server_.address(), Header(handle, Lines(2, 2)));
  second.Send("cd");
  second.End();
  EXPECT_TRUE(first.Finish().ok());
  EXPECT_TRUE(second.Finish().ok());
  EXPECT_EQ(Download(handle), "abcd");
}

TEST_F(TransfersTest, ATensorThatIsDeletedMeanwhileIsToldToAll) {
  const std::string handle = CreateU8(4, 1);
  Stream first(server_.address(), Header(handle, Lines(0, 2)));
  first.Send("ab");
  first.End();
  Stream second(server_.address(), Header(handle, Lines(2, 2)));
  ASSERT_TRUE(Eventually(
      [&] { return server_.engine().tensors().bytes() == 2 * bytes_; }));
  v1::DeleteTensorRequest request;
  request.set_handle(handle);
  grpc::ClientContext context;
  v1::DeleteTensorResponse response;
  ASSERT_TRUE(tensors_->DeleteTensor(&context, request, &response).ok());
  second.Send("cd");
  second.End();
  // Whoever sends is told so; the other one, that this was the end.
  EXPECT_THAT(
      (std::vector{first.Finish().error_code(), second.Finish().error_code()}),
      ::testing::AllOf(
          ::testing::Contains(grpc::NOT_FOUND),
          ::testing::Each(::testing::AnyOf(grpc::NOT_FOUND, grpc::ABORTED))));
  bytes_ = 0;
  ExpectNothingHeld();
}

TEST_F(TransfersTest, DownloadsOfLinesAreOfTheVersionThatIsAskedFor) {
  const std::string handle = CreateU8(4, 3);
  const auto upload = [&](const std::string& transfer) {
    Stream all(server_.address(), Header(handle, Lines(0, 4), transfer));
    all.Send("abcdefghijkl");
    all.End();
    const grpc::Status status = all.Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
  };
  upload(kTransfer);
  v1::DownloadTensorRequest request;
  request.set_handle(handle);
  *request.mutable_lines() = Lines(1, 2);
  EXPECT_EQ(Download(request), "defghi");
  EXPECT_EQ(version_, 1);
  request.set_version(1);
  EXPECT_EQ(Download(request), "defghi");
  upload("another transfer");
  EXPECT_EQ(Download(request), "");
  EXPECT_EQ(status_.error_code(), grpc::ABORTED);
  EXPECT_THAT(status_.error_message(), HasSubstr("version 2, and 1"));
  request.set_version(2);
  *request.mutable_lines() = Lines(3, 2);
  EXPECT_EQ(Download(request), "");
  EXPECT_EQ(status_.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status_.error_message(), HasSubstr("lines.count is 2"));
}

class TransfersOfPrincipalsTest : public testing::IdentityTest {};

TEST_F(TransfersOfPrincipalsTest, BelongToWhoeverBeganThem) {
  StartAliceAndBob();
  const auto alice = As("alice"), bob = As("bob");
  std::string handle;
  ASSERT_TRUE(alice.Create(4, &handle).ok());  // f32, rows of 256 bytes.
  Stream first(server_->address(), Header(handle, Lines(0, 3)), &alice);
  first.Send(Pattern(3 * 256, 1));
  first.End();
  // Bob knows all that there is to know, and nobody may be Bob's.
  Stream guess(server_->address(), Header(handle, Lines(3, 1)), &bob);
  EXPECT_EQ(guess.Finish().error_code(), grpc::NOT_FOUND);
  Stream second(server_->address(), Header(handle, Lines(3, 1)), &alice);
  second.Send(Pattern(256, 1));
  second.End();
  EXPECT_TRUE(first.Finish().ok());
  EXPECT_TRUE(second.Finish().ok());
}

}  // namespace
}  // namespace gemmd
