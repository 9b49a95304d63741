// Both directions say the same, of every field that the API has.
#include "proto/convert/problem.h"

#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace gemmd::convert {
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

TEST(ConvertTest, NoQuantizationIsNotThatOfWholeLines) {
  v1::Problem wire = Problem();
  wire.set_b_type(v1::DATA_TYPE_S4);
  wire.set_b_order(v1::ORDER_COLUMN_MAJOR);
  auto problem = ToProblem(wire);
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->quantization, jit::Quantization());
  EXPECT_FALSE(ToWire(*problem).has_quantization());
  wire.mutable_quantization();
  problem = ToProblem(wire);
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->quantization, jit::Quantization({jit::kWholeLine, false}));
  EXPECT_TRUE(ToWire(*problem).has_quantization());
  EXPECT_EQ(ToWire(*problem).quantization().group(), 0);
}

TEST(ConvertTest, ResultsOfWeightsHaveTheTypeOfTheOtherOperand) {
  v1::Problem wire = Problem();
  wire.set_a_type(v1::DATA_TYPE_S8);
  const auto problem = ToProblem(wire);
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->d_type, jit::DataType::kBf16);
  EXPECT_EQ(problem->accumulator, jit::DataType::kF32);
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
        Bad{"b_sparsity is 9; allowed: SPARSITY_UNSPECIFIED, SPARSITY_2_4",
            kInvalid,
            [](v1::Problem& p) { p.set_b_sparsity(v1::Sparsity(9)); }},
        Bad{"b_sparsity is SPARSITY_2_4; allowed: SPARSITY_UNSPECIFIED, "
            "because "
            "problem.sparsity is",
            kInvalid,
            [](v1::Problem& p) {
              p.set_sparsity(v1::SPARSITY_2_4);
              p.set_b_sparsity(v1::SPARSITY_2_4);
            }},
        Bad{"k is 5; allowed: multiples of 4 with sparse a of bf16", kInvalid,
            [](v1::Problem& p) { p.set_sparsity(v1::SPARSITY_2_4); }},
        Bad{"quantization is given; allowed: nothing with bf16", kInvalid,
            [](v1::Problem& p) { p.mutable_quantization(); }},
        Bad{"quantization.group is 48; allowed: 32, 64, 128, 0", kInvalid,
            [](v1::Problem& p) {
              p.set_b_type(v1::DATA_TYPE_U4);
              p.mutable_quantization()->set_group(48);
            }},
        Bad{"quantization.group is 2147483647; allowed: 32, 64, 128, 0",
            kInvalid,
            [](v1::Problem& p) {
              p.set_b_type(v1::DATA_TYPE_U4);
              p.mutable_quantization()->set_group(2147483647);
            }},
        Bad{"activation", kInvalid,
            [](v1::Problem& p) { p.set_activation(v1::Activation(99)); }}));

TEST(ConvertTest, DataTypesMapOneToOne) {
  for (int i = v1::DataType_MIN + 1; i <= v1::DataType_MAX; ++i) {
    const auto type = ToDataType(i, "dtype");
    ASSERT_TRUE(type.ok()) << i;
    EXPECT_EQ(ToWire(*type), i);
  }
}

// Problems in which fields differ from their defaults, in protobuf's text.
constexpr const char* kProblems[] = {
    "m: 3 n: 4 k: 5 batch: 7 a_type: DATA_TYPE_BF16 b_type: DATA_TYPE_BF16 "
    "c_type: DATA_TYPE_F32 d_type: DATA_TYPE_F16 a_order: ORDER_COLUMN_MAJOR "
    "b_order: ORDER_COLUMN_MAJOR d_order: ORDER_COLUMN_MAJOR alpha: 0.5 "
    "beta: -2 activation: ACTIVATION_RELU invariant: true "
    "epilogue { bias: EXTENT_ROW a_scale: EXTENT_ROW b_scale: EXTENT_COLUMN "
    "d_scale: true auxiliary: true amax: true }",
    "a_type: DATA_TYPE_E4M3 b_type: DATA_TYPE_E5M2 d_type: DATA_TYPE_F32 "
    "accumulator: ACCUMULATOR_F16 batch: 0 alpha: 0",
    "a_type: DATA_TYPE_E5M2 b_type: DATA_TYPE_E4M3 d_type: DATA_TYPE_E4M3 "
    "precision: PRECISION_FAST activation: ACTIVATION_GELU_ERF "
    "epilogue { bias: EXTENT_COLUMN a_scale: EXTENT_TENSOR "
    "b_scale: EXTENT_TENSOR }",
    "a_type: DATA_TYPE_E4M3 b_type: DATA_TYPE_E4M3 d_type: DATA_TYPE_E5M2 "
    "activation: ACTIVATION_GELU_TANH accumulator: ACCUMULATOR_F32 "
    "epilogue { a_scale: EXTENT_BLOCK b_scale: EXTENT_BLOCK }",
    "a_type: DATA_TYPE_F32 b_type: DATA_TYPE_F32 precision: PRECISION_TF32 "
    "d_type: DATA_TYPE_BF16 activation: ACTIVATION_SILU",
    "a_type: DATA_TYPE_F16 b_type: DATA_TYPE_F16",
    "a_type: DATA_TYPE_U8 b_type: DATA_TYPE_S8 d_type: DATA_TYPE_S32 "
    "c_type: DATA_TYPE_S32 accumulator: ACCUMULATOR_S32 saturate: true",
    "a_type: DATA_TYPE_S8 b_type: DATA_TYPE_U8 d_type: DATA_TYPE_S8",
    "a_type: DATA_TYPE_S8 b_type: DATA_TYPE_S8 d_type: DATA_TYPE_U8",
    "a_type: DATA_TYPE_B1 b_type: DATA_TYPE_B1 "
    "bit_operation: BIT_OPERATION_XOR",
    "a_type: DATA_TYPE_B1 b_type: DATA_TYPE_B1 "
    "bit_operation: BIT_OPERATION_AND",
    "k: 8 a_type: DATA_TYPE_S8 b_type: DATA_TYPE_U8 sparsity: SPARSITY_2_4",
    "k: 2 a_type: DATA_TYPE_F32 b_type: DATA_TYPE_F32 precision: "
    "PRECISION_TF32 b_sparsity: SPARSITY_2_4 b_order: ORDER_COLUMN_MAJOR",
    "a_type: DATA_TYPE_BF16 b_type: DATA_TYPE_U4 b_order: ORDER_COLUMN_MAJOR "
    "quantization { group: 32 zero_points: true }",
    "a_type: DATA_TYPE_S4 b_type: DATA_TYPE_F16 quantization {}",
    "a_type: DATA_TYPE_U4 b_type: DATA_TYPE_BF16",
    "a_type: DATA_TYPE_F16 b_type: DATA_TYPE_S4",
};

v1::Problem Parse(const std::string& text) {
  v1::Problem problem;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &problem));
  return problem;
}

TEST(ConvertTest, NothingIsLostOnTheWayThereAndBack) {
  for (const char* const text : kProblems) {
    const v1::Problem given = Parse(text);
    const auto problem = ReadProblem(given);
    ASSERT_TRUE(problem.ok()) << text << ": " << problem.status();
    EXPECT_TRUE(jit::Validate(*problem).ok())
        << text << ": " << jit::Validate(*problem);
    const v1::Problem sent = ToWire(*problem);
    // What was given stands there, and it means the same again.
    google::protobuf::util::MessageDifferencer differencer;
    std::string difference;
    differencer.ReportDifferencesToString(&difference);
    differencer.set_scope(google::protobuf::util::MessageDifferencer::PARTIAL);
    EXPECT_TRUE(differencer.Compare(given, sent)) << text << "\n" << difference;
    const auto again = ReadProblem(sent);
    ASSERT_TRUE(again.ok()) << text << ": " << again.status();
    EXPECT_EQ(ToWire(*again).SerializeAsString(), sent.SerializeAsString());
  }
}

// "epilogue.bias" or, of enums, "epilogue.bias=EXTENT_ROW".
void CollectPresent(const google::protobuf::Message& message,
                    const std::string& prefix, std::set<std::string>& names) {
  const auto& reflection = *message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const auto* field : fields) {
    std::string name = prefix + field->name();
    if (field->message_type() != nullptr) {
      CollectPresent(reflection.GetMessage(message, field), name + ".", names);
    } else if (field->enum_type() != nullptr) {
      names.insert(name + "=" + reflection.GetEnum(message, field)->name());
    } else {
      names.insert(name);
    }
  }
}

void CollectAll(const google::protobuf::Descriptor& message,
                const std::string& prefix, std::set<std::string>& names) {
  for (int i = 0; i < message.field_count(); ++i) {
    const auto& field = *message.field(i);
    std::string name = prefix + field.name();
    if (field.message_type() != nullptr) {
      CollectAll(*field.message_type(), name + ".", names);
    } else if (field.enum_type() != nullptr) {
      // Of several fields of one enum, any may have each of its values.
      for (int value = 1; value < field.enum_type()->value_count(); ++value) {
        names.insert(name + "=" + field.enum_type()->value(value)->name());
      }
    } else {
      names.insert(name);
    }
  }
}

// A field, or a value of an enum, that is added to the API has to be added to
// kProblems, which then shows whether both directions know it.
TEST(ConvertTest, TheProblemsAboveHaveEveryFieldAndValueOfTheApi) {
  // What the contract has not.
  const std::set<std::string> never = {
      "a_type=DATA_TYPE_S32",       "b_type=DATA_TYPE_S32",
      "d_type=DATA_TYPE_B1",        "d_type=DATA_TYPE_S4",
      "d_type=DATA_TYPE_U4",        "epilogue.bias=EXTENT_TENSOR",
      "epilogue.bias=EXTENT_BLOCK", "epilogue.a_scale=EXTENT_COLUMN",
      "epilogue.b_scale=EXTENT_ROW"};
  // The default, with every other problem.
  std::set<std::string> present = {"a_order=ORDER_ROW_MAJOR",
                                   "b_order=ORDER_ROW_MAJOR",
                                   "d_order=ORDER_ROW_MAJOR"};
  for (const char* const text : kProblems) {
    CollectPresent(Parse(text), "", present);
  }
  std::set<std::string> all;
  CollectAll(*v1::Problem::descriptor(), "", all);
  for (const std::string& name : all) {
    // C has the types of D.
    if (name.starts_with("c_type=") || never.contains(name)) continue;
    EXPECT_TRUE(present.contains(name)) << name;
  }
}

}  // namespace
}  // namespace gemmd::convert
