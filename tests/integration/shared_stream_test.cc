// Streamed products of which some matrices travel and others lie in memory that
// clients share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/integration/eventually.h"
#include "tests/integration/shared_region.h"
#include "tests/integration/stream_call.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;
using testing::kRegionBytes;
using testing::Mappings;
using testing::OnesTimesTwos;
using testing::SharedRegion;
using testing::TestServer;

class SharedStreamTest : public ::testing::Test {
 protected:
  testing::StreamAnswer Stream(const v1::MatmulRequest& request) {
    return testing::CallStream(server_.unix_channel(),
                               testing::ToStream(request, 100));
  }

  TestServer server_;
  SharedRegion region_{server_};
};

TEST_F(SharedStreamTest, SomeTravelAndOthersAreShared) {
  const v1::MatmulRequest sent = OnesTimesTwos(8, 8, 16);
  const std::string expected = Stream(sent).response.d();
  ASSERT_EQ(expected.size(), 256u);
  region_.Put(100, sent.a());
  region_.Put(1000, sent.b());
  for (const bool a_lies : {false, true}) {
    for (const bool d_lies : {false, true}) {
      v1::MatmulRequest request = sent;
      v1::MatmulHeader& header = *request.mutable_header();
      if (a_lies) {
        request.clear_a();
        region_.Name(100, *header.mutable_a()->mutable_region());
      } else {
        request.clear_b();
        region_.Name(1000, *header.mutable_b()->mutable_region());
      }
      if (d_lies) region_.Name(4096, *header.mutable_d()->mutable_region());
      std::memset(region_.bytes() + 4096, '.', 4096);
      const testing::StreamAnswer answer = Stream(request);
      ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
      const v1::Paths& paths = answer.response.execution().paths();
      EXPECT_EQ(paths.a(), a_lies ? v1::PATH_SHARED : v1::PATH_STREAM);
      EXPECT_EQ(paths.b(), a_lies ? v1::PATH_STREAM : v1::PATH_SHARED);
      EXPECT_EQ(paths.d(), d_lies ? v1::PATH_SHARED : v1::PATH_STREAM);
      EXPECT_EQ(answer.response.d(), d_lies ? "" : expected);
      EXPECT_EQ(region_.Take(4096, 256),
                d_lies ? expected : std::string(256, '.'));
      EXPECT_EQ(region_.Take(4096 + 256, 9), ".........");
    }
  }
}

TEST_F(SharedStreamTest, OneResultMayBeSharedAndTheOtherTravel) {
  v1::MatmulRequest request = OnesTimesTwos(8, 8, 16);
  v1::MatmulHeader& header = *request.mutable_header();
  header.mutable_problem()->set_alpha(-1);
  header.mutable_problem()->set_activation(v1::ACTIVATION_RELU);
  header.mutable_problem()->mutable_epilogue()->set_auxiliary(true);
  const v1::MatmulResponse expected = Stream(request).response;
  ASSERT_EQ(expected.auxiliary().size(), 256u);
  ASSERT_NE(expected.auxiliary(), expected.d());
  region_.Name(4096, *header.mutable_auxiliary()->mutable_region());
  testing::StreamAnswer answer = Stream(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.response.d(), expected.d());
  EXPECT_EQ(answer.response.auxiliary(), "");
  EXPECT_EQ(region_.Take(4096, 256), expected.auxiliary());
  region_.Name(8192, *header.mutable_d()->mutable_region());
  answer = Stream(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.response.d(), "");
  EXPECT_EQ(region_.Take(8192, 256), expected.d());
  region_.Name(4200, *header.mutable_d()->mutable_region());
  EXPECT_THAT(Stream(request).status.error_message(),
              HasSubstr("auxiliary and d overlap in a region"));
}

TEST_F(SharedStreamTest, WhatIsWrongIsRefusedBeforeChunksAreRead) {
  v1::MatmulRequest request = OnesTimesTwos(8, 8, 16);
  v1::MatmulHeader& header = *request.mutable_header();
  const auto refused = [&](const char* why,
                           StatusCode code = StatusCode::INVALID_ARGUMENT) {
    const grpc::Status status = Stream(request).status;
    EXPECT_EQ(status.error_code(), code);
    EXPECT_THAT(status.error_message(), HasSubstr(why));
  };
  region_.Name(kRegionBytes - 255, *header.mutable_b()->mutable_region());
  refused("b.region.offset is 1048321 and the matrix has 256 bytes");
  // Chunks of it come, too.
  region_.Name(0, *header.mutable_b()->mutable_region());
  refused(
      "chunk of b, which is a tensor, in a region or empty; allowed: chunks of "
      "a");
  header.mutable_b()->mutable_region()->set_region("none");
  refused("b.region: no such region", StatusCode::NOT_FOUND);
}

// Between the header and the chunks.
TEST_F(SharedStreamTest, AStreamKeepsItsRegion) {
  v1::MatmulRequest request = OnesTimesTwos(8, 8, 16);
  const std::string expected = Stream(request).response.d();
  region_.Put(100, request.b());
  request.clear_b();
  region_.Name(100, *request.mutable_header()->mutable_b()->mutable_region());
  region_.Name(4096, *request.mutable_header()->mutable_d()->mutable_region());
  grpc::ClientContext context;
  const auto stream = v1::MatmulService::NewStub(server_.unix_channel())
                          ->MatmulStream(&context);
  const auto messages = testing::ToStream(request, 100);
  ASSERT_TRUE(stream->Write(messages[0]));
  EXPECT_TRUE(testing::Eventually(
      [&] { return server_.engine().tensors().bytes() > 0; }));
  region_.Close();
  EXPECT_TRUE(testing::Eventually([&] {
    return Stream(request).status.error_code() == StatusCode::NOT_FOUND;
  }));
  EXPECT_EQ(Mappings(), 2) << "the client's and the daemon's";
  for (size_t i = 1; i < messages.size(); ++i) {
    ASSERT_TRUE(stream->Write(messages[i]));
  }
  stream->WritesDone();
  v1::MatmulStreamResponse answer;
  EXPECT_TRUE(stream->Read(&answer));
  EXPECT_TRUE(answer.has_execution()) << "there is nothing else";
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(region_.Take(4096, expected.size()), expected);
  EXPECT_TRUE(testing::Eventually([] { return Mappings() == 1; }));
}

}  // namespace
}  // namespace gemmd
