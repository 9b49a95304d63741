// Grouped products through the whole server.
#include <gtest/gtest.h>

#include <string>

#include "gemmd/v1/matmul.pb.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using testing::OnesTimesTwos;
using testing::TestServer;

constexpr char kMethod[] = "/gemmd.v1.MatmulService/MatmulGrouped";

class GroupedTest : public ::testing::Test {
 protected:
  grpc::Status Send(const std::string& bytes) {
    std::string answer;
    const grpc::Status status = server_.CallRaw(kMethod, bytes, &answer);
    EXPECT_TRUE(!status.ok() || response_.ParseFromString(answer));
    return status;
  }
  grpc::Status Send(const v1::MatmulGroupedRequest& request) {
    return Send(request.SerializeAsString());
  }

  void ExpectRefused(const grpc::Status& status, grpc::StatusCode code,
                     const std::string& text) {
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_NE(status.error_message().find(text), std::string::npos)
        << status.error_message();
  }

  TestServer server_;
  v1::MatmulGroupedResponse response_;
};

TEST_F(GroupedTest, EachGroupHasItsOwnSizes) {
  v1::MatmulGroupedRequest request;
  for (int i = 0; i < 12; ++i) {
    *request.add_groups() = OnesTimesTwos(i, 12 - i, 3 * i);
  }
  ASSERT_TRUE(Send(request).ok());
  ASSERT_EQ(response_.groups_size(), 12);
  for (int i = 0; i < 12; ++i) {
    const v1::MatmulResponse& group = response_.groups(i);
    const float element = 6.0f * static_cast<float>(i);  // 3 i twos.
    std::string expected;
    for (int64_t j = 0; j < i * (12 - i); ++j) {
      expected.append(reinterpret_cast<const char*>(&element), sizeof element);
    }
    EXPECT_EQ(group.d(), expected);
    EXPECT_EQ(group.execution().device(), "host");
  }
}

TEST_F(GroupedTest, NoGroupsAreAnAnswer) {
  EXPECT_TRUE(Send(v1::MatmulGroupedRequest()).ok());
  EXPECT_EQ(response_.groups_size(), 0);
}

TEST_F(GroupedTest, WhatIsWrongNamesItsGroup) {
  v1::MatmulGroupedRequest request;
  for (int i = 0; i < 3; ++i) *request.add_groups() = OnesTimesTwos(2, 3, 4);
  request.mutable_groups(2)->mutable_header()->mutable_problem()->set_m(-1);
  ExpectRefused(Send(request), grpc::INVALID_ARGUMENT,
                "groups[2]: problem.m is -1");
  request.mutable_groups(1)->mutable_a()->push_back('x');
  ExpectRefused(Send(request), grpc::INVALID_ARGUMENT, "groups[1]: a has");
  request.mutable_groups(0)->clear_header();
  ExpectRefused(Send(request), grpc::INVALID_ARGUMENT,
                "groups[0]: header.problem is missing");
}

TEST_F(GroupedTest, MalformedMessagesAreRefused) {
  ExpectRefused(Send(std::string("\x0a\x05"
                                 "abc",
                                 5)),
                grpc::INVALID_ARGUMENT, "");
  ExpectRefused(Send(std::string("\x0a\x02\x0a\x7f", 4)),
                grpc::INVALID_ARGUMENT, "groups[0]: ");
}

TEST_F(GroupedTest, LongHeadersAreCountedTogether) {
  v1::MatmulGroupedRequest request;
  v1::MatmulRequest group = OnesTimesTwos(1, 1, 1);
  // Not looked at, because beta is 0.
  group.mutable_header()->mutable_c()->set_tensor(std::string(60000, 'c'));
  for (int i = 0; i < 17; ++i) *request.add_groups() = group;
  EXPECT_TRUE(Send(request).ok());
  *request.add_groups() = group;
  ExpectRefused(Send(request), grpc::INVALID_ARGUMENT,
                "the headers of groups have more than 1048576 bytes");
}

TEST_F(GroupedTest, TensorsTakeWhatGroupsWrite) {
  auto tensors = v1::TensorService::NewStub(server_.channel());
  v1::CreateTensorRequest create;
  create.set_rows(2);
  create.set_columns(3);
  create.set_dtype(v1::DATA_TYPE_F32);
  v1::TensorInfo info;
  grpc::ClientContext context;
  ASSERT_TRUE(tensors->CreateTensor(&context, create, &info).ok());
  v1::MatmulGroupedRequest request;
  *request.add_groups() = OnesTimesTwos(2, 3, 4);
  *request.add_groups() = OnesTimesTwos(2, 3, 4);
  request.mutable_groups(1)->mutable_header()->mutable_d()->set_tensor(
      info.handle());
  ASSERT_TRUE(Send(request).ok());
  EXPECT_EQ(response_.groups(0).d().size(), 24u);
  EXPECT_EQ(response_.groups(1).d(), "");
}

}  // namespace
}  // namespace gemmd
