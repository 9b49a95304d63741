// Grouped products through the whole server.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gemmd/v1/kernels.grpc.pb.h"
#include "gemmd/v1/matmul.pb.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using testing::OnesTimesTwos;
using testing::TestServer;

constexpr char kMethod[] = "/gemmd.v1.MatmulService/MatmulGrouped";

std::string Floats(int count, float value) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return bytes;
}

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

// Two operands of 2 MiB, each of which serves a million products: days of the
// host.
TEST_F(GroupedTest, WhatTakesTooLongIsRefused) {
  v1::MatmulRequest request = OnesTimesTwos(1, 1, 1 << 20);
  v1::MatmulHeader& header = *request.mutable_header();
  header.mutable_problem()->set_batch(1 << 20);
  for (v1::Source* operand : {header.mutable_a(), header.mutable_b()}) {
    operand->mutable_inline_()->set_batch_stride(0);
  }
  const std::string text = "(--max-work). Use several calls.";
  v1::MatmulResponse response;
  grpc::ClientContext context;
  ExpectRefused(v1::MatmulService::NewStub(server_.channel())
                    ->Matmul(&context, request, &response),
                grpc::StatusCode::RESOURCE_EXHAUSTED, text);
  v1::MatmulGroupedRequest group;
  *group.add_groups() = request;
  ExpectRefused(Send(group), grpc::StatusCode::RESOURCE_EXHAUSTED, text);
}

TEST_F(GroupedTest, EachGroupHasItsOwnSizes) {
  v1::MatmulGroupedRequest request;
  for (int i = 0; i < 12; ++i) {
    *request.add_groups() = OnesTimesTwos(i, 12 - i, 3 * i);
  }
  ASSERT_TRUE(Send(request).ok());
  ASSERT_EQ(response_.groups_size(), 12);
  for (int i = 0; i < 12; ++i) {
    const v1::MatmulResponse& group = response_.groups(i);
    EXPECT_EQ(group.d(), Floats(i * (12 - i), 6.0f * static_cast<float>(i)))
        << "3 i twos";
    EXPECT_EQ(group.execution().device(), "host");
  }
}

// Those that follow share a launch, and it none with them; also where they have
// had a plan before.
TEST_F(GroupedTest, OneThatMultipliesNothingMayComeFirst) {
  for (const std::vector<int>& depths :
       std::vector<std::vector<int>>{{64, 64}, {0, 64, 64, 64}, {64, 64}}) {
    v1::MatmulGroupedRequest request;
    for (const int depth : depths) {
      v1::MatmulRequest& group = *request.add_groups();
      group = OnesTimesTwos(5, 1, depth);
      group.mutable_header()->mutable_problem()->set_alpha(2);
    }
    const grpc::Status status = Send(request);
    ASSERT_TRUE(status.ok()) << status.error_message();
    for (size_t i = 0; i < depths.size(); ++i) {
      const v1::MatmulResponse& group = response_.groups(static_cast<int>(i));
      EXPECT_EQ(group.d(), Floats(5, 4.0f * static_cast<float>(depths[i])));
      EXPECT_EQ(group.execution().splits(), depths[i] == 0 ? 0 : 1);
    }
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

TEST_F(GroupedTest, MoreGroupsThanAreAllowedAreCounted) {
  v1::MatmulGroupedRequest request;
  for (int i = 0; i < 257; ++i) *request.add_groups() = OnesTimesTwos(1, 1, 1);
  ExpectRefused(Send(request), grpc::INVALID_ARGUMENT,
                "groups: more than 256; allowed: 0 to 256");
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

class PrepareGroupsTest : public GroupedTest {
 protected:
  // Of bf16, like the products that go together: m of 64 x 64 each.
  static v1::ProblemGroup Group(const std::vector<int64_t>& rows) {
    v1::ProblemGroup group;
    for (const int64_t m : rows) {
      *group.add_problems() = OnesTimesTwos(m, 64, 64).header().problem();
    }
    return group;
  }

  grpc::Status Prepare() {
    grpc::ClientContext context;
    return v1::KernelService::NewStub(server_.channel())
        ->PrepareKernels(&context, request_, &prepared_);
  }

  v1::PrepareKernelsRequest request_;
  v1::PrepareKernelsResponse prepared_;
};

TEST_F(PrepareGroupsTest, EveryProblemIsAnsweredForInOrder) {
  *request_.add_problems() = OnesTimesTwos(64, 64, 64).header().problem();
  *request_.add_groups() = Group({1, 2, 3, 0, 4, 5, 6, 7, 8, 9, 10});
  *request_.add_groups() = Group({});
  *request_.add_groups() = Group({64});
  const grpc::Status status = Prepare();
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(prepared_.kernels_size(), 13);
  const auto kernel = [&](int i) { return prepared_.kernels(i).kernel(); };
  EXPECT_EQ(kernel(0).find("_grouped"), std::string::npos);
  EXPECT_NE(kernel(1).find("_grouped"), std::string::npos);
  for (int i = 2; i < 12; ++i) EXPECT_EQ(kernel(i), i == 4 ? "" : kernel(1));
  EXPECT_EQ(kernel(12), kernel(0)) << "one product is no launch of many";
  // And MatmulGrouped finds it loaded.
  v1::MatmulGroupedRequest products;
  for (int i = 1; i <= 10; ++i) {
    *products.add_groups() = OnesTimesTwos(i, 64, 64);
  }
  ASSERT_TRUE(Send(products).ok());
  EXPECT_EQ(response_.groups(0).execution().kernel(), kernel(1));
  EXPECT_EQ(response_.groups(0).execution().cubin_source(),
            v1::CUBIN_SOURCE_LOADED);
}

// The own kernel of each is prepared, although another one is there that a call
// would run with.
TEST_F(PrepareGroupsTest, NoKernelStandsInForAnother) {
  *request_.add_groups() = Group(std::vector<int64_t>(20, 8));
  *request_.add_groups() = Group(std::vector<int64_t>(20, 2000));
  ASSERT_TRUE(Prepare().ok());
  ASSERT_EQ(prepared_.kernels_size(), 40);
  EXPECT_NE(prepared_.kernels(0).kernel(), prepared_.kernels(20).kernel());
  EXPECT_EQ(prepared_.kernels(20).cubin_source(), v1::CUBIN_SOURCE_COMPILED);
}

TEST_F(PrepareGroupsTest, WhatIsWrongNamesItsGroup) {
  *request_.add_groups() = Group({1});
  *request_.add_groups() = Group({1, 2, -3});
  ExpectRefused(Prepare(), grpc::INVALID_ARGUMENT,
                "groups[1]: problems[2]: problem.m is -3");
  *request_.mutable_groups(1) = Group(std::vector<int64_t>(257, 1));
  ExpectRefused(Prepare(), grpc::INVALID_ARGUMENT,
                "groups[1]: problems has 257 entries; allowed: 0 to 256");
  request_.clear_groups();
  for (int i = 0; i < 5; ++i) {
    *request_.add_groups() = Group(std::vector<int64_t>(205, 1));
  }
  ExpectRefused(Prepare(), grpc::INVALID_ARGUMENT,
                "problems and those of groups[0] to groups[4] are 1025; "
                "allowed: 0 to 1024");
  request_.clear_groups();
  for (int i = 0; i < 1025; ++i) request_.add_groups();
  ExpectRefused(Prepare(), grpc::INVALID_ARGUMENT,
                "groups has 1025 entries; allowed: 0 to 1024");
}

// They would take a loop milliseconds to parse.
TEST_F(PrepareGroupsTest, FarTooManyAreCountedBeforeTheyAreParsed) {
  for (int i = 0; i < 4000; ++i) request_.add_groups();
  const std::string text = "more than 3072 fields";
  ExpectRefused(Prepare(), grpc::INVALID_ARGUMENT, text);
  request_.clear_groups();
  for (int i = 0; i < 2; ++i) {
    v1::ProblemGroup& group = *request_.add_groups();
    for (int j = 0; j < 2000; ++j) group.add_problems();
  }
  ExpectRefused(Prepare(), grpc::INVALID_ARGUMENT, "fields");
  request_.clear_groups();
  for (int i = 0; i < 4000; ++i) request_.add_problems();
  ExpectRefused(Prepare(), grpc::INVALID_ARGUMENT, text);
}

}  // namespace
}  // namespace gemmd
