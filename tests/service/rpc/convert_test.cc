#include "service/rpc/convert.h"

#include <gtest/gtest.h>

namespace gemmd::rpc {
namespace {

v1::Problem Problem() {
  v1::Problem problem;
  problem.set_m(3);
  problem.set_n(4);
  problem.set_k(5);
  problem.set_a_type(v1::DATA_TYPE_BF16);
  problem.set_b_type(v1::DATA_TYPE_BF16);
  return problem;
}

TEST(ConvertTest, DefaultsAreThoseOfTheProto) {
  const auto problem = ToProblem(Problem());
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->d_type, jit::DataType::kBf16);
  EXPECT_EQ(problem->c_type, jit::DataType::kBf16);
  EXPECT_EQ(problem->a_order, jit::Order::kRowMajor);
  EXPECT_EQ(problem->alpha, 1.0f);
  EXPECT_EQ(problem->beta, 0.0f);
}

TEST(ConvertTest, CTakesTheTypeOfD) {
  v1::Problem wire = Problem();
  wire.set_d_type(v1::DATA_TYPE_F32);
  wire.set_beta(1);
  const auto problem = ToProblem(wire);
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->c_type, jit::DataType::kF32);
}

TEST(ConvertTest, ZeroScalarsAreNotDefaults) {
  v1::Problem wire = Problem();
  wire.set_alpha(0);
  const auto problem = ToProblem(wire);
  ASSERT_TRUE(problem.ok());
  EXPECT_EQ(problem->alpha, 0.0f);
}

struct Bad {
  std::string field;  // That the message must name.
  absl::StatusCode code;
  void (*spoil)(v1::Problem&);
};

class ConvertBadTest : public testing::TestWithParam<Bad> {};

TEST_P(ConvertBadTest, IsRefusedNamingTheField) {
  v1::Problem wire = Problem();
  GetParam().spoil(wire);
  const auto problem = ToProblem(wire);
  EXPECT_EQ(problem.status().code(), GetParam().code);
  EXPECT_NE(problem.status().message().find("problem." + GetParam().field),
            std::string::npos)
      << problem.status();
}

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnserved = absl::StatusCode::kUnimplemented;

INSTANTIATE_TEST_SUITE_P(
    All, ConvertBadTest,
    testing::Values(
        Bad{"m is -3", kInvalid, [](v1::Problem& p) { p.set_m(-3); }},
        Bad{"n is 2147483648", kInvalid,
            [](v1::Problem& p) { p.set_n(int64_t{1} << 31); }},
        Bad{"k", kInvalid, [](v1::Problem& p) { p.set_k(INT64_MIN); }},
        Bad{"batch", kInvalid, [](v1::Problem& p) { p.set_batch(-1); }},
        Bad{"a_type is unspecified", kInvalid,
            [](v1::Problem& p) { p.clear_a_type(); }},
        Bad{"b_type is 77", kInvalid,
            [](v1::Problem& p) { p.set_b_type(v1::DataType(77)); }},
        Bad{"a_type", kUnserved,
            [](v1::Problem& p) {
              p.set_a_type(v1::DATA_TYPE_S32);
              p.set_b_type(v1::DATA_TYPE_S32);
            }},
        Bad{"b_type", kUnserved,
            [](v1::Problem& p) { p.set_b_type(v1::DATA_TYPE_F16); }},
        Bad{"d_type", kUnserved,
            [](v1::Problem& p) { p.set_d_type(v1::DATA_TYPE_S8); }},
        Bad{"sparsity", kInvalid,
            [](v1::Problem& p) { p.set_sparsity(v1::Sparsity(7)); }},
        Bad{"a_order is 3", kInvalid,
            [](v1::Problem& p) { p.set_a_order(v1::Order(3)); }},
        Bad{"b_order", kInvalid,
            [](v1::Problem& p) { p.set_b_order(v1::Order(9)); }},
        Bad{"d_order", kInvalid,
            [](v1::Problem& p) { p.set_d_order(v1::Order(-1)); }},
        Bad{"accumulator", kUnserved,
            [](v1::Problem& p) { p.set_accumulator(v1::ACCUMULATOR_F16); }},
        Bad{"accumulator", kInvalid,
            [](v1::Problem& p) { p.set_accumulator(v1::Accumulator(8)); }},
        Bad{"precision", kInvalid,
            [](v1::Problem& p) { p.set_precision(v1::PRECISION_FAST); }},
        Bad{"precision is 9; allowed: PRECISION_UNSPECIFIED, PRECISION_FAST, "
            "PRECISION_TF32",
            kInvalid,
            [](v1::Problem& p) { p.set_precision(v1::Precision(9)); }},
        Bad{"saturate", kInvalid, [](v1::Problem& p) { p.set_saturate(true); }},
        Bad{"bit_operation is xor", kInvalid,
            [](v1::Problem& p) { p.set_bit_operation(v1::BIT_OPERATION_XOR); }},
        Bad{"bit_operation is 3", kInvalid,
            [](v1::Problem& p) { p.set_bit_operation(v1::BitOperation(3)); }},
        Bad{"epilogue.bias is tensor", kInvalid,
            [](v1::Problem& p) {
              p.mutable_epilogue()->set_bias(v1::EXTENT_TENSOR);
            }},
        Bad{"epilogue.a_scale is 12", kInvalid,
            [](v1::Problem& p) {
              p.mutable_epilogue()->set_a_scale(v1::Extent(12));
            }},
        Bad{"epilogue.b_scale is row", kInvalid,
            [](v1::Problem& p) {
              p.mutable_epilogue()->set_b_scale(v1::EXTENT_ROW);
            }},
        Bad{"sparsity", kUnserved,
            [](v1::Problem& p) { p.set_sparsity(v1::SPARSITY_2_4); }},
        Bad{"activation", kInvalid,
            [](v1::Problem& p) { p.set_activation(v1::Activation(99)); }}));

TEST(ConvertTest, DataTypesMapOneToOne) {
  for (int i = v1::DataType_MIN + 1; i <= v1::DataType_MAX; ++i) {
    const auto type = ToDataType(i, "dtype");
    ASSERT_TRUE(type.ok()) << i;
    EXPECT_EQ(ToWire(*type), i);
  }
}

}  // namespace
}  // namespace gemmd::rpc
