// Headers of steps mean what a header alone means, however they are written.
#include "service/rpc/step_headers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace gemmd::rpc {
namespace {

v1::MatmulHeader Header(int64_t m, const std::string& a) {
  v1::MatmulHeader header;
  header.mutable_problem()->set_m(m);
  header.mutable_problem()->set_a_type(v1::DATA_TYPE_S8);
  header.mutable_problem()->set_b_type(v1::DATA_TYPE_S8);
  header.mutable_a()->set_tensor(a);
  return header;
}

std::string RestOf(v1::MatmulHeader header) {
  header.clear_problem();
  return header.SerializeAsString();
}

class StepHeadersTest : public ::testing::Test {
 protected:
  void ExpectReads(const std::string& bytes, int64_t m, const std::string& a) {
    ASSERT_TRUE(steps_.Read(bytes).ok());
    EXPECT_EQ(steps_.problem().m, m);
    EXPECT_EQ(steps_.problem().a_type, jit::DataType::kS8);
    EXPECT_EQ(steps_.header().a().tensor(), a);
  }
  absl::Status Read(const v1::MatmulHeader& header) {
    return steps_.Read(header.SerializeAsString());
  }

  StepHeaders steps_;
};

TEST_F(StepHeadersTest, EachHasItsOwnProblemAndOperands) {
  ExpectReads(Header(3, "x").SerializeAsString(), 3, "x");
  ExpectReads(Header(4, "y").SerializeAsString(), 4, "y");
  ExpectReads(Header(3, "").SerializeAsString(), 3, "");
  ExpectReads(Header(4, "z").SerializeAsString(), 4, "z");
  v1::MatmulHeader more = Header(3, "x");
  more.mutable_b()->set_name("b");
  ASSERT_TRUE(Read(more).ok());
  EXPECT_EQ(steps_.header().b().name(), "b");
  ExpectReads(Header(3, "x").SerializeAsString(), 3, "x");
  EXPECT_FALSE(steps_.header().has_b()) << "that was another step's";
}

TEST_F(StepHeadersTest, FieldsComeInAnyOrderAndParts) {
  const v1::MatmulHeader header = Header(3, "x");
  v1::MatmulHeader first;
  *first.mutable_problem() = header.problem();
  const std::string problem = first.SerializeAsString();
  ExpectReads(header.SerializeAsString(), 3, "x");
  ExpectReads(RestOf(header) + problem, 3, "x");
  // Of a problem in parts the last m counts, and all types.
  v1::MatmulHeader larger;
  larger.mutable_problem()->set_m(5);
  ExpectReads(problem + RestOf(header) + larger.SerializeAsString(), 5, "x");
  ExpectReads(header.SerializeAsString(), 3, "x");
  v1::MatmulHeader types = header;
  types.mutable_problem()->clear_m();
  ExpectReads(larger.SerializeAsString() + types.SerializeAsString(), 5, "x");
}

TEST_F(StepHeadersTest, WhatIsWrongIsSaidEachTime) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Read(v1::MatmulHeader()),
              absl::InvalidArgumentError("header.problem is missing"));
    EXPECT_THAT(Read(Header(-1, "x")).message(), testing::HasSubstr("m is -1"));
    EXPECT_THAT(steps_.Read("\x0a\x7f").message(),
                testing::HasSubstr("it is not a serialised MatmulHeader"));
    EXPECT_THAT(steps_.Read("\x0a\x01\xff").message(),
                testing::HasSubstr("it is not a serialised MatmulHeader"));
    EXPECT_THAT(Read(Header(3, "\xff")).message(),
                testing::HasSubstr("a.tensor is no UTF-8"));
    ExpectReads(Header(3, "x").SerializeAsString(), 3, "x");
  }
}

}  // namespace
}  // namespace gemmd::rpc
