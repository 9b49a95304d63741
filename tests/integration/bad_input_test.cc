// What the daemon refuses, with which words; and that it lives on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using ::testing::HasSubstr;
using testing::OnesTimesTwos;
using testing::TestServer;

struct Bad {
  const char* name;
  grpc::StatusCode code;
  const char* says;
  void (*spoil)(v1::MatmulRequest&);
};

v1::Problem& ProblemOf(v1::MatmulRequest& request) {
  return *request.mutable_header()->mutable_problem();
}

v1::Layout& LayoutOfA(v1::MatmulRequest& request) {
  return *request.mutable_header()->mutable_a()->mutable_inline_();
}
v1::Layout& LayoutOfB(v1::MatmulRequest& request) {
  return *request.mutable_header()->mutable_b()->mutable_inline_();
}
v1::Layout& LayoutOfD(v1::MatmulRequest& request) {
  return *request.mutable_header()->mutable_d()->mutable_inline_();
}

v1::MatmulRequest WithoutBytes(int64_t m, int64_t n, int64_t k) {
  v1::MatmulRequest request = OnesTimesTwos(0, 0, 0);
  ProblemOf(request).set_m(m);
  ProblemOf(request).set_n(n);
  ProblemOf(request).set_k(k);
  return request;
}

// B, of 4 columns of 5, becomes quantized weights.
v1::Quantization& QuantizeB(v1::MatmulRequest& request, v1::DataType type) {
  v1::Problem& problem = ProblemOf(request);
  problem.set_b_type(type);
  problem.set_b_order(v1::ORDER_COLUMN_MAJOR);
  return *problem.mutable_quantization();
}

constexpr int64_t kHuge = 223606;  // kHuge^2 bf16 elements are 100 GB.

const Bad kBad[] = {
    {"NegativeDimension", grpc::INVALID_ARGUMENT,
     "problem.m is -3; allowed: 0 to 2147483392",
     [](auto& r) { ProblemOf(r).set_m(-3); }},
    {"OverflowingDimension", grpc::INVALID_ARGUMENT,
     "problem.k is 9223372036854775807; allowed: 0 to 2147483392",
     [](auto& r) { ProblemOf(r).set_k(INT64_MAX); }},
    {"LeadingDimensionBelowWidth", grpc::INVALID_ARGUMENT,
     "a.inline.leading_dimension is 4; allowed: 0 or 5 to 2147483392",
     [](auto& r) { LayoutOfA(r).set_leading_dimension(4); }},
    {"LeadingDimensionOfDBelowWidth", grpc::INVALID_ARGUMENT,
     "d.inline.leading_dimension is 1; allowed: 0 or 4 to 8388606",
     [](auto& r) { LayoutOfD(r).set_leading_dimension(1); }},
    {"LeadingDimensionOfDMostlyPadding", grpc::INVALID_ARGUMENT,
     "d.inline.leading_dimension is 8388607; allowed: 0 or 4 to 8388606",
     [](auto& r) { LayoutOfD(r).set_leading_dimension(8388607); }},
    {"NegativeLeadingDimension", grpc::INVALID_ARGUMENT,
     "b.inline.leading_dimension is -4",
     [](auto& r) { LayoutOfB(r).set_leading_dimension(-4); }},
    {"TooFewBytes", grpc::INVALID_ARGUMENT,
     "a has 29 bytes; allowed for its shape: 30",
     [](auto& r) { r.mutable_a()->pop_back(); }},
    {"TooManyBytes", grpc::INVALID_ARGUMENT,
     "b has 41 bytes; allowed for its shape: 40",
     [](auto& r) { r.mutable_b()->push_back('x'); }},
    {"NoBytesOfC", grpc::INVALID_ARGUMENT,
     "c has 0 bytes; allowed for its shape: 48",
     [](auto& r) { ProblemOf(r).set_beta(1); }},
    {"HugeShapeWithoutBytes", grpc::INVALID_ARGUMENT,
     "a has 0 bytes; allowed for its shape: 99999286472",
     [](auto& r) { r = WithoutBytes(kHuge, kHuge, kHuge); }},
    {"HugeResultWithoutOperands", grpc::RESOURCE_EXHAUSTED,
     "a response is limited to 16777216 bytes",
     [](auto& r) { r = WithoutBytes(kHuge, kHuge, 0); }},
    {"ResultsTooLargeTogether", grpc::RESOURCE_EXHAUSTED,
     "auxiliary has 12000000 bytes beside the 12000000 of d; a response is "
     "limited to 16777216 bytes",
     [](auto& r) {
       r = WithoutBytes(1500, 2000, 0);
       ProblemOf(r).mutable_epilogue()->set_auxiliary(true);
     }},
    {"HugestResult", grpc::RESOURCE_EXHAUSTED, "a response is limited",
     [](auto& r) { r = WithoutBytes(1000000, 1000000, 0); }},
    {"ResultOfTooManyTiles", grpc::INVALID_ARGUMENT,
     "problem.batch * ceil(problem.m / 64) * ceil(problem.n / 8) is "
     "9007197107257472; allowed: 0 to 2146435072",
     [](auto& r) { r = WithoutBytes(2147483392, 2147483392, 0); }},
    {"UnspecifiedType", grpc::INVALID_ARGUMENT, "problem.a_type is unspecified",
     [](auto& r) { ProblemOf(r).clear_a_type(); }},
    {"UnknownType", grpc::INVALID_ARGUMENT, "problem.b_type is 42",
     [](auto& r) { ProblemOf(r).set_b_type(v1::DataType(42)); }},
    {"TypeNotServed", grpc::UNIMPLEMENTED, "problem.a_type is s32",
     [](auto& r) {
       ProblemOf(r).set_a_type(v1::DATA_TYPE_S32);
       ProblemOf(r).set_b_type(v1::DATA_TYPE_S32);
     }},
    {"CombinationNotServed", grpc::UNIMPLEMENTED, "problem.b_type is f16",
     [](auto& r) { ProblemOf(r).set_b_type(v1::DATA_TYPE_F16); }},
    {"Batch", grpc::INVALID_ARGUMENT, "problem.batch is -1; allowed: 0 to",
     [](auto& r) { ProblemOf(r).set_batch(-1); }},
    {"Activation", grpc::INVALID_ARGUMENT, "problem.activation is 99",
     [](auto& r) { ProblemOf(r).set_activation(v1::Activation(99)); }},
    {"SparsityAndK", grpc::INVALID_ARGUMENT,
     "problem.k is 5; allowed: multiples of 4 with sparse a of bf16",
     [](auto& r) { ProblemOf(r).set_sparsity(v1::SPARSITY_2_4); }},
    {"SparsityOfBoth", grpc::INVALID_ARGUMENT, "problem.b_sparsity",
     [](auto& r) {
       ProblemOf(r).set_sparsity(v1::SPARSITY_2_4);
       ProblemOf(r).set_b_sparsity(v1::SPARSITY_2_4);
     }},
    {"UnknownSparsity", grpc::INVALID_ARGUMENT, "problem.sparsity is 7",
     [](auto& r) { ProblemOf(r).set_sparsity(v1::Sparsity(7)); }},
    {"QuantizationOfNoWeights", grpc::INVALID_ARGUMENT,
     "problem.quantization is given; allowed: nothing with bf16; it is of "
     "weights",
     [](auto& r) { ProblemOf(r).mutable_quantization(); }},
    {"GroupOfAnotherSize", grpc::INVALID_ARGUMENT,
     "problem.quantization.group is 48; allowed: 32, 64, 128, 0 (all of k)",
     [](auto& r) { QuantizeB(r, v1::DATA_TYPE_U4).set_group(48); }},
    {"NegativeGroup", grpc::INVALID_ARGUMENT,
     "problem.quantization.group is -1; allowed: 32",
     [](auto& r) { QuantizeB(r, v1::DATA_TYPE_S4).set_group(-1); }},
    {"ZeroPointsOfEightBits", grpc::INVALID_ARGUMENT,
     "problem.quantization.zero_points is true; allowed with elements of s8: "
     "false; true with s4, u4",
     [](auto& r) { QuantizeB(r, v1::DATA_TYPE_S8).set_zero_points(true); }},
    {"QuantizedLinesAcrossK", grpc::INVALID_ARGUMENT,
     "problem.b_order is row_major; allowed: column_major with "
     "problem.quantization",
     [](auto& r) {
       QuantizeB(r, v1::DATA_TYPE_S8);
       ProblemOf(r).set_b_order(v1::ORDER_ROW_MAJOR);
     }},
    {"QuantizedLengthOfPlainWeights", grpc::INVALID_ARGUMENT,
     "b has 40 bytes; allowed for its shape: 28",
     [](auto& r) { QuantizeB(r, v1::DATA_TYPE_U4); }},
    {"PlainWeightsOfTheOtherType", grpc::INVALID_ARGUMENT,
     "b has 40 bytes; allowed for its shape: 10",
     [](auto& r) { ProblemOf(r).set_b_type(v1::DATA_TYPE_S4); }},
    {"HalfAByteOfWeights", grpc::INVALID_ARGUMENT,
     "b.inline.leading_dimension is 5; allowed: 0 or 4 to 2147483392, a "
     "multiple of 2",
     [](auto& r) {
       ProblemOf(r).set_b_type(v1::DATA_TYPE_S4);
       LayoutOfB(r).set_leading_dimension(5);
     }},
    {"WeightsOfBoth", grpc::UNIMPLEMENTED,
     "problem.b_type is s4; served: bf16, f16 with a_type s4",
     [](auto& r) {
       ProblemOf(r).set_a_type(v1::DATA_TYPE_S4);
       ProblemOf(r).set_b_type(v1::DATA_TYPE_S4);
     }},
    {"ResultOfFourBits", grpc::UNIMPLEMENTED, "problem.d_type is u4; served: ",
     [](auto& r) { ProblemOf(r).set_d_type(v1::DATA_TYPE_U4); }},
    {"UnknownOrder", grpc::INVALID_ARGUMENT, "problem.d_order is 7",
     [](auto& r) { ProblemOf(r).set_d_order(v1::Order(7)); }},
    {"ContradictingOrder", grpc::INVALID_ARGUMENT, "a.inline.order",
     [](auto& r) { LayoutOfA(r).set_order(v1::ORDER_COLUMN_MAJOR); }},
    {"UnknownTensor", grpc::NOT_FOUND, "a.tensor: no tensor 0123456789abcdef",
     [](auto& r) {
       r.clear_a();
       r.mutable_header()->mutable_a()->set_tensor(
           "0123456789abcdef0123456789abcdef");
     }},
    {"TensorAndBytes", grpc::INVALID_ARGUMENT, "a has 30 bytes; allowed: 0",
     [](auto& r) { r.mutable_header()->mutable_a()->set_tensor("x"); }},
    {"UnknownDevice", grpc::INVALID_ARGUMENT,
     "device is unknown; this daemon has: host",
     [](auto& r) { r.mutable_header()->set_device("cuda:0"); }},
    {"NoProblem", grpc::INVALID_ARGUMENT, "header.problem is missing",
     [](auto& r) { r.mutable_header()->clear_problem(); }},
    {"NoHeader", grpc::INVALID_ARGUMENT, "header.problem is missing",
     [](auto& r) { r.clear_header(); }},
};

class BadInputTest : public ::testing::TestWithParam<Bad> {
 protected:
  static void SetUpTestSuite() {
    TestServer::Options options;
    options.limits.max_message_bytes = 16 << 20;
    server_ = new TestServer(options);
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

  static TestServer* server_;
};

TestServer* BadInputTest::server_ = nullptr;

TEST_P(BadInputTest, IsRefusedByNameAndTheDaemonLivesOn) {
  v1::MatmulRequest request = OnesTimesTwos(3, 4, 5);
  GetParam().spoil(request);
  auto stub = v1::MatmulService::NewStub(server_->channel());
  v1::MatmulResponse response;
  grpc::ClientContext bad;
  const grpc::Status status = stub->Matmul(&bad, request, &response);
  EXPECT_EQ(status.error_code(), GetParam().code) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr(GetParam().says));
  grpc::ClientContext good;
  EXPECT_TRUE(stub->Matmul(&good, OnesTimesTwos(3, 4, 5), &response).ok());
}

INSTANTIATE_TEST_SUITE_P(All, BadInputTest, ::testing::ValuesIn(kBad),
                         [](const auto& info) { return info.param.name; });

class BadMessageTest : public BadInputTest {};

TEST_F(BadMessageTest, BytesThatAreNoMessage) {
  for (const std::string& bytes :
       {std::string("\xff\xff"), std::string("\x0a\x05xx"),
        std::string(1000, '\x03'), std::string(1, '\0')}) {
    const grpc::Status status =
        server_->CallRaw("/gemmd.v1.MatmulService/Matmul", bytes);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  }
  const grpc::Status status = server_->CallRaw(
      "/gemmd.v1.TensorService/CreateTensor", std::string("\xff\xff"));
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
}

// A field of a serialised message.
std::string Field(int number, const std::string& value) {
  return absl::StrCat(std::string(1, static_cast<char>(number << 3 | 2)),
                      std::string(1, static_cast<char>(value.size())), value);
}

TEST_F(BadMessageTest, TextThatIsNotUtf8IsRefusedByName) {
  const std::string bad = "a\xff\n";
  const std::string source = Field(2, bad);   // Source.tensor
  const std::string name = Field(4, bad);     // Source.name
  const std::string operand = Field(1, bad);  // SequenceOperand.name
  const struct {
    const char* method;
    std::string request;
    const char* field;
  } cases[] = {
      {"gemmd.v1.TensorService/CreateTensor", Field(7, bad), "label"},
      {"gemmd.v1.TensorService/DescribeTensor", Field(1, bad), "handle"},
      {"gemmd.v1.TensorService/UploadTensor", Field(1, Field(1, bad)),
       "header.handle"},
      {"gemmd.v1.MatmulService/Matmul", Field(1, Field(2, source)), "a.tensor"},
      {"gemmd.v1.MatmulService/MatmulGrouped",
       Field(1, Field(1, Field(2, source))), "a.tensor"},
      {"gemmd.v1.MatmulService/MatmulStream", Field(1, Field(3, source)),
       "header.b.tensor"},
      {"gemmd.v1.MatmulService/Sequence", Field(1, Field(2, name)), "a.name"},
      {"gemmd.v1.MatmulService/Sequence", Field(2, operand),
       "operands[0]: name"},
      {"inference.GRPCInferenceService/ModelInfer", Field(1, bad),
       "model_name"},
      {"grpc.health.v1.Health/Check", Field(1, bad), "service"},
      {"grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
       Field(3, bad), "file_by_filename"},
  };
  for (const auto& one : cases) {
    const grpc::Status status =
        server_->CallRaw(absl::StrCat("/", one.method), one.request);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << one.method;
    EXPECT_THAT(status.error_message(),
                HasSubstr(absl::StrCat(one.field, " is no UTF-8")))
        << one.method;
  }
}

TEST_F(BadMessageTest, TooLargeAMessageIsToldTheLimit) {
  v1::MatmulRequest request = OnesTimesTwos(3, 4, 5);
  request.set_a(std::string(17 << 20, 'x'));
  auto stub = v1::MatmulService::NewStub(server_->channel());
  v1::MatmulResponse response;
  grpc::ClientContext context;
  const grpc::Status status = stub->Matmul(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("16777216"));
}

TEST_F(BadMessageTest, CompressedMessagesAreRefusedUnopened) {
  v1::MatmulRequest request = OnesTimesTwos(3, 4, 5);
  request.set_a(std::string(100 << 20, '\0'));  // 100 KB when compressed.
  auto stub = v1::MatmulService::NewStub(server_->channel());
  v1::MatmulResponse response;
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  const grpc::Status status = stub->Matmul(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), HasSubstr("gzip"));
}

// The planner of a daemon divided by the number of its tiles: 2^75 are 0.
TEST_F(BadMessageTest, ProductsOfMoreTilesThanAKernelCounts) {
  TestServer server({.limits = {.admin_calls = true}});
  v1::Problem huge = OnesTimesTwos(3, 4, 64).header().problem();
  huge.set_m(1 << 30);
  huge.set_n(1 << 30);
  huge.set_batch(1 << 30);
  v1::PrepareKernelsRequest prepare;
  *prepare.add_problems() = huge;
  v1::PrepareKernelsRequest prepare_group;
  for (int i = 0; i < 2; ++i) {
    *prepare_group.add_groups()->add_problems() = huge;
  }
  v1::TuneKernelsRequest tune;
  *tune.add_problems() = huge;
  v1::MatmulRequest matmul;
  *matmul.mutable_header()->mutable_problem() = huge;
  v1::MatmulGroupedRequest grouped;
  *grouped.add_groups()->mutable_header()->mutable_problem() = huge;
  v1::SequenceRequest sequence;
  *sequence.add_steps()->mutable_problem() = huge;
  v1::MatmulStreamRequest stream;
  *stream.mutable_header()->mutable_problem() = huge;
  const std::pair<const char*, const google::protobuf::Message*> calls[] = {
      {"KernelService/PrepareKernels", &prepare},
      {"KernelService/PrepareKernels", &prepare_group},
      {"KernelService/TuneKernels", &tune},
      {"MatmulService/Matmul", &matmul},
      {"MatmulService/MatmulGrouped", &grouped},
      {"MatmulService/Sequence", &sequence},
      {"MatmulService/MatmulStream", &stream}};
  for (const auto& [method, request] : calls) {
    const grpc::Status status = server.CallRaw(
        absl::StrCat("/gemmd.v1.", method), request->SerializeAsString());
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << method;
    EXPECT_THAT(status.error_message(),
                HasSubstr("problem.batch * ceil(problem.m / 64) * "
                          "ceil(problem.n / 8) is 2.41785e+24; allowed: 0 to "
                          "2146435072"))
        << method;
  }
  EXPECT_TRUE(server_
                  ->CallRaw("/gemmd.v1.MatmulService/Matmul",
                            OnesTimesTwos(3, 4, 5).SerializeAsString())
                  .ok());
}

TEST_F(BadMessageTest, UnknownMethods) {
  for (const char* method :
       {"/gemmd.v1.MatmulService/Nothing", "/nobody.Service/Method", "/x"}) {
    EXPECT_EQ(server_->CallRaw(method, "").error_code(), grpc::UNIMPLEMENTED)
        << method;
  }
}

}  // namespace
}  // namespace gemmd
