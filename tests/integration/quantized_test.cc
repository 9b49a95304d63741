// Quantized weights through a whole server: in messages, streams, sequences,
// tensors and models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gemmd/v1/models.grpc.pb.h"
#include "inference/service.grpc.pb.h"
#include "tests/integration/stream_call.h"
#include "tests/integration/test_server.h"
#include "tests/service/matrix.h"

namespace gemmd {
namespace {

using jit::DataType;
using ::testing::HasSubstr;
using testing::TestServer;

// Lines of u4 by groups of 32, of which the last has 6: 35 bytes of elements,
// three scales and three zero points.
constexpr int64_t kRows = 4, kLines = 5, kK = 70;
constexpr int64_t kLineBytes = kK / 2 + 4 * 3 + 3;

int Element(int64_t line, int64_t k) { return (7 * line + 3 * k) % 16; }
float Scale(int64_t line, int64_t group) {
  return std::ldexp(1.0f, (line + group) % 3 - 1);
}
int ZeroPoint(int64_t line, int64_t group) {
  constexpr int kPoints[] = {-128, 127, 8};
  return kPoints[(line + group) % 3];
}
float Activation(int64_t row, int64_t k) { return (5 * row + k) % 9 - 4; }

// Lines `pitch` bytes apart; behind them anything.
std::string Weights(int64_t pitch = kLineBytes) {
  std::string bytes(kLines * pitch, '\x7f');
  for (int64_t line = 0; line < kLines; ++line) {
    char* const to = bytes.data() + line * pitch;
    for (int64_t k = 0; k < kK; k += 2) {
      to[k / 2] = Element(line, k) | Element(line, k + 1) << 4;
    }
    for (int64_t group = 0; group < 3; ++group) {
      const float scale = Scale(line, group);
      std::memcpy(to + kK / 2 + 4 * group, &scale, sizeof scale);
      to[kK / 2 + 12 + group] = ZeroPoint(line, group);
    }
  }
  return bytes;
}

// bf16, `kRows` lines along k.
std::string Activations() {
  std::string bytes(kRows * kK * 2, '\0');
  for (int64_t i = 0; i < kRows * kK; ++i) {
    testing::Put(DataType::kBf16, Activation(i / kK, i % kK), bytes.data(), i);
  }
  return bytes;
}

// Of one row and one line of weights, exact in f32.
float Sum(int64_t row, int64_t line) {
  double sum = 0;
  for (int64_t k = 0; k < kK; ++k) {
    sum += Scale(line, k / 32) * Activation(row, k) *
           (Element(line, k) - ZeroPoint(line, k / 32));
  }
  return static_cast<float>(sum);
}

// D = activations * weights, row-major; or weights * activations.
void ExpectProduct(const std::string& d, bool weights_are_b = true) {
  ASSERT_EQ(d.size(), kRows * kLines * 4);
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < kLines; ++j) {
      const int64_t at = weights_are_b ? i * kLines + j : j * kRows + i;
      EXPECT_EQ(testing::Get(DataType::kF32, d.data(), at), Sum(i, j))
          << i << ", " << j;
    }
  }
}

v1::Quantization ByGroups() {
  v1::Quantization quantization;
  quantization.set_group(32);
  quantization.set_zero_points(true);
  return quantization;
}

v1::MatmulRequest Product() {
  v1::MatmulRequest request;
  v1::Problem& problem = *request.mutable_header()->mutable_problem();
  problem.set_m(kRows);
  problem.set_n(kLines);
  problem.set_k(kK);
  problem.set_a_type(v1::DATA_TYPE_BF16);
  problem.set_b_type(v1::DATA_TYPE_U4);
  problem.set_b_order(v1::ORDER_COLUMN_MAJOR);
  problem.set_d_type(v1::DATA_TYPE_F32);
  *problem.mutable_quantization() = ByGroups();
  request.set_a(Activations());
  request.set_b(Weights());
  return request;
}

// The same with the weights as A.
v1::MatmulRequest Exchanged() {
  v1::MatmulRequest request = Product();
  v1::Problem& problem = *request.mutable_header()->mutable_problem();
  problem.set_m(kLines);
  problem.set_n(kRows);
  problem.set_a_type(v1::DATA_TYPE_U4);
  problem.set_b_type(v1::DATA_TYPE_BF16);
  request.mutable_a()->swap(*request.mutable_b());
  return request;
}

v1::MatmulRequest OfTensor(const std::string& handle) {
  v1::MatmulRequest request = Product();
  request.clear_b();
  request.mutable_header()->mutable_b()->set_tensor(handle);
  return request;
}

class QuantizedTest : public ::testing::Test {
 protected:
  grpc::Status Multiply(const v1::MatmulRequest& request) {
    grpc::ClientContext context;
    return v1::MatmulService::NewStub(server_.channel())
        ->Matmul(&context, request, &response_);
  }
  void ExpectRefused(const v1::MatmulRequest& request, const char* says) {
    const grpc::Status status = Multiply(request);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr(says));
    ASSERT_TRUE(Multiply(Product()).ok());
    ExpectProduct(response_.d());
  }

  // Of weights as they are in Product().
  static v1::CreateTensorRequest Tensor() {
    v1::CreateTensorRequest request;
    request.set_dtype(v1::DATA_TYPE_U4);
    request.set_rows(kK);
    request.set_columns(kLines);
    request.set_order(v1::ORDER_COLUMN_MAJOR);
    *request.mutable_quantization() = ByGroups();
    return request;
  }
  grpc::Status Create(const v1::CreateTensorRequest& request) {
    grpc::ClientContext context;
    return tensors_->CreateTensor(&context, request, &info_);
  }
  grpc::Status Upload(const std::string& handle, const std::string& bytes,
                      int64_t leading_dimension = 0) {
    grpc::ClientContext context;
    auto writer = tensors_->UploadTensor(&context, &info_);
    v1::UploadTensorRequest header, data;
    header.mutable_header()->set_handle(handle);
    header.mutable_header()->mutable_layout()->set_leading_dimension(
        leading_dimension);
    writer->Write(header);
    for (size_t at = 0; at < bytes.size(); at += 13) {
      data.set_data(bytes.substr(at, 13));
      if (!writer->Write(data)) break;
    }
    writer->WritesDone();
    return writer->Finish();
  }
  std::string Download(const std::string& handle) {
    v1::DownloadTensorRequest request;
    request.set_handle(handle);
    grpc::ClientContext context;
    auto reader = tensors_->DownloadTensor(&context, request);
    std::string bytes;
    v1::DownloadTensorResponse response;
    while (reader->Read(&response)) bytes += response.data();
    EXPECT_TRUE(reader->Finish().ok());
    return bytes;
  }
  std::string Resident(const v1::CreateTensorRequest& request) {
    EXPECT_TRUE(Create(request).ok());
    const std::string handle = info_.handle();
    const grpc::Status status = Upload(handle, Weights());
    EXPECT_TRUE(status.ok()) << status.error_message();
    return handle;
  }

  grpc::Status CreateModel(const v1::CreateModelRequest& request) {
    grpc::ClientContext context;
    return v1::ModelService::NewStub(server_.channel())
        ->CreateModel(&context, request, &model_);
  }
  static v1::CreateModelRequest ModelOf(const std::string& b) {
    v1::CreateModelRequest request;
    request.set_name("linear");
    request.set_b(b);
    return request;
  }

  TestServer server_{{.limits = {.admin_calls = true}}};
  const std::unique_ptr<v1::TensorService::Stub> tensors_ =
      v1::TensorService::NewStub(server_.channel());
  v1::MatmulResponse response_;
  v1::TensorInfo info_;
  v1::Model model_;
};

TEST_F(QuantizedTest, EitherOperandMayBeWeights) {
  grpc::Status status = Multiply(Product());
  ASSERT_TRUE(status.ok()) << status.error_message();
  ExpectProduct(response_.d());
  status = Multiply(Exchanged());
  ASSERT_TRUE(status.ok()) << status.error_message();
  ExpectProduct(response_.d(), /*weights_are_b=*/false);
}

TEST_F(QuantizedTest, StridesCountBytes) {
  v1::MatmulRequest request = Product();
  v1::MatmulHeader& header = *request.mutable_header();
  header.mutable_b()->mutable_inline_()->set_leading_dimension(kLineBytes + 3);
  request.set_b(Weights(kLineBytes + 3));
  ASSERT_TRUE(Multiply(request).ok());
  ExpectProduct(response_.d());
  // Two of them, 7 bytes apart; the first is all zeros.
  header.mutable_problem()->set_batch(2);
  header.mutable_a()->mutable_inline_()->set_batch_stride(0);
  header.mutable_b()->mutable_inline_()->set_batch_stride(request.b().size() +
                                                          7);
  request.set_b(std::string(request.b().size() + 7, '\0') + request.b());
  const grpc::Status status = Multiply(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const size_t half = response_.d().size() / 2;
  EXPECT_EQ(response_.d().substr(0, half), std::string(half, '\0'));
  ExpectProduct(response_.d().substr(half));
}

TEST_F(QuantizedTest, TravelsInStreams) {
  for (const size_t chunk : {7, 1000}) {
    testing::StreamAnswer answer = testing::CallStream(
        server_.channel(), testing::ToStream(Product(), chunk));
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    ExpectProduct(answer.response.d());
    answer = testing::CallStream(server_.channel(),
                                 testing::ToStream(Exchanged(), chunk));
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    ExpectProduct(answer.response.d(), /*weights_are_b=*/false);
  }
}

TEST_F(QuantizedTest, ATensorStartsWithScalesOfZero) {
  const grpc::Status status = Create(Tensor());
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(info_.dtype(), v1::DATA_TYPE_U4);
  EXPECT_EQ(info_.rows(), kK);
  EXPECT_EQ(info_.quantization().group(), 32);
  EXPECT_TRUE(info_.quantization().zero_points());
  EXPECT_EQ(info_.device_bytes(), kLines * 64);
  const std::string handle = info_.handle();
  EXPECT_EQ(Download(handle), std::string(kLines * kLineBytes, '\0'));
  ASSERT_TRUE(Multiply(OfTensor(handle)).ok());
  EXPECT_EQ(response_.d(), std::string(kRows * kLines * 4, '\0'));
}

TEST_F(QuantizedTest, ATensorIsWhatWasUploaded) {
  const std::string handle = Resident(Tensor());
  EXPECT_EQ(Download(handle), Weights());
  ASSERT_TRUE(Upload(handle, Weights(kLineBytes + 9), kLineBytes + 9).ok());
  EXPECT_EQ(Download(handle), Weights());
  grpc::ClientContext context;
  v1::DescribeTensorRequest request;
  request.set_handle(handle);
  v1::TensorInfo info;
  ASSERT_TRUE(tensors_->DescribeTensor(&context, request, &info).ok());
  EXPECT_EQ(info.quantization().group(), 32);
  const grpc::Status status = Upload(handle, Weights().substr(1));
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("250"));
}

TEST_F(QuantizedTest, ATensorIsAnOperandOrItsTranspose) {
  v1::MatmulRequest request = OfTensor(Resident(Tensor()));
  grpc::Status status = Multiply(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ExpectProduct(response_.d());
  v1::CreateTensorRequest rows = Tensor();
  rows.set_rows(kLines);
  rows.set_columns(kK);
  rows.set_order(v1::ORDER_ROW_MAJOR);
  const std::string handle = Resident(rows);
  request.mutable_header()->mutable_b()->set_tensor(handle);
  request.mutable_header()->mutable_b()->set_transposed(true);
  status = Multiply(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ExpectProduct(response_.d());
  request = Exchanged();
  request.clear_a();
  request.mutable_header()->mutable_a()->set_tensor(handle);
  status = Multiply(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ExpectProduct(response_.d(), /*weights_are_b=*/false);
}

TEST_F(QuantizedTest, AProductSaysHowItsTensorIsQuantized) {
  const std::string handle = Resident(Tensor());
  v1::MatmulRequest request = OfTensor(handle);
  v1::Problem& problem = *request.mutable_header()->mutable_problem();
  problem.clear_quantization();
  ExpectRefused(request,
                "b.tensor is quantized by 32 with zero points u4 70 x 5 "
                "column_major; allowed for this problem: u4 70 x 5 "
                "column_major");
  problem.mutable_quantization();
  ExpectRefused(request, "for this problem: quantized by k u4 70 x 5");
  problem.mutable_quantization()->set_group(32);
  ExpectRefused(request, "for this problem: quantized by 32 u4 70 x 5");
  v1::CreateTensorRequest plain = Tensor();
  plain.clear_quantization();
  ASSERT_TRUE(Create(plain).ok());
  ExpectRefused(OfTensor(info_.handle()), "b.tensor is u4 70 x 5 column_major");
}

TEST_F(QuantizedTest, PlainWeightsLieInEitherOrder) {
  // Ones, and twos of four bits.
  for (const v1::Order order : {v1::ORDER_ROW_MAJOR, v1::ORDER_COLUMN_MAJOR}) {
    v1::MatmulRequest request = testing::OnesTimesTwos(3, 5, 7);
    v1::Problem& problem = *request.mutable_header()->mutable_problem();
    problem.set_b_type(v1::DATA_TYPE_S4);
    problem.set_b_order(order);
    v1::CreateTensorRequest tensor;
    tensor.set_dtype(v1::DATA_TYPE_S4);
    tensor.set_rows(7);
    tensor.set_columns(5);
    tensor.set_order(order);
    ASSERT_TRUE(Create(tensor).ok());
    EXPECT_FALSE(info_.has_quantization());
    const std::string handle = info_.handle();
    const bool rows = order == v1::ORDER_ROW_MAJOR;
    request.set_b(std::string(rows ? 7 * 3 : 5 * 4, '\x22'));
    ASSERT_TRUE(Upload(handle, request.b()).ok());
    // The half behind the last of a line is nobody's.
    std::string without = request.b();
    for (size_t i = 0; i < without.size(); ++i) {
      if (i % (rows ? 3 : 4) == (rows ? 2 : 3)) without[i] = '\x02';
    }
    EXPECT_EQ(Download(handle), without);
    for (const bool resident : {false, true}) {
      if (resident) {
        request.clear_b();
        request.mutable_header()->mutable_b()->set_tensor(handle);
      }
      const grpc::Status status = Multiply(request);
      ASSERT_TRUE(status.ok()) << status.error_message();
      for (int i = 0; i < 15; ++i) {
        EXPECT_EQ(testing::Get(DataType::kF32, response_.d().data(), i), 14);
      }
    }
  }
}

TEST_F(QuantizedTest, WhatIsNoQuantizedTensorIsRefused) {
  const auto refused = [&](const char* says, auto spoil) {
    v1::CreateTensorRequest request = Tensor();
    spoil(request);
    const grpc::Status status = Create(request);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << says;
    EXPECT_THAT(status.error_message(), HasSubstr(says));
    EXPECT_TRUE(Create(Tensor()).ok());
  };
  refused("quantization.group is 48; allowed: 32, 64, 128, 0 (all of k)",
          [](auto& r) { r.mutable_quantization()->set_group(48); });
  refused("quantization.group is -1; allowed: ",
          [](auto& r) { r.mutable_quantization()->set_group(-1); });
  // That of whole lines, as this project keeps it.
  refused(
      "quantization.group is 2147483647; allowed: 32, 64, 128, 0 (all of k)",
      [](auto& r) { r.mutable_quantization()->set_group(2147483647); });
  refused(
      "quantization is given with elements of f32; allowed with: s4, u4, "
      "s8, e4m3",
      [](auto& r) { r.set_dtype(v1::DATA_TYPE_F32); });
  refused(
      "quantization.zero_points is true; allowed with elements of e4m3: "
      "false",
      [](auto& r) { r.set_dtype(v1::DATA_TYPE_E4M3); });
  refused("quantization is given; allowed: none in a sparse tensor",
          [](auto& r) {
            r.set_dtype(v1::DATA_TYPE_S8);
            r.set_rows(8);
            r.set_sparsity(v1::SPARSITY_2_4);
            r.mutable_quantization()->set_zero_points(false);
          });
}

TEST_F(QuantizedTest, AStepOfASequenceReadsThemByName) {
  v1::SequenceRequest request;
  for (const auto& [name, data] : {std::pair("x", Activations()),
                                   std::pair("w", Weights(kLineBytes + 1))}) {
    v1::SequenceOperand& operand = *request.add_operands();
    operand.set_name(name);
    operand.set_data(data);
  }
  request.mutable_operands(1)->mutable_layout()->set_leading_dimension(
      kLineBytes + 1);
  v1::MatmulHeader& step = *request.add_steps();
  *step.mutable_problem() = Product().header().problem();
  step.mutable_a()->set_name("x");
  step.mutable_b()->set_name("w");
  grpc::ClientContext context;
  v1::SequenceResponse response;
  const grpc::Status status = v1::MatmulService::NewStub(server_.channel())
                                  ->Sequence(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ExpectProduct(response.steps(0).d());
}

TEST_F(QuantizedTest, AModelHasThemAndTakesBf16) {
  v1::CreateModelRequest request = ModelOf(Resident(Tensor()));
  request.mutable_problem()->set_d_type(v1::DATA_TYPE_F32);
  grpc::Status status = CreateModel(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(model_.problem().a_type(), v1::DATA_TYPE_BF16);
  EXPECT_EQ(model_.problem().b_type(), v1::DATA_TYPE_U4);
  EXPECT_EQ(model_.problem().quantization().group(), 32);
  inference::ModelInferRequest infer;
  infer.set_model_name("linear");
  auto& a = *infer.add_inputs();
  a.set_name("A");
  a.set_datatype("BF16");
  a.add_shape(kRows);
  a.add_shape(kK);
  infer.add_raw_input_contents(Activations());
  grpc::ClientContext context;
  inference::ModelInferResponse response;
  status = inference::GRPCInferenceService::NewStub(server_.channel())
               ->ModelInfer(&context, infer, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.raw_output_contents_size(), 1);
  ExpectProduct(response.raw_output_contents(0));
}

TEST_F(QuantizedTest, AModelIsOfWeightsAsTheyLie) {
  v1::CreateTensorRequest rows = Tensor();
  rows.set_rows(kLines);
  rows.set_columns(kK);
  rows.set_order(v1::ORDER_ROW_MAJOR);
  v1::CreateModelRequest request = ModelOf(Resident(rows));
  grpc::Status status = CreateModel(request);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              HasSubstr("problem.b_order is row_major; allowed: column_major"));
  request.set_b_transposed(true);
  request.mutable_problem()->set_a_type(v1::DATA_TYPE_F32);
  status = CreateModel(request);
  EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), HasSubstr("problem.b_type is u4"));
  request.mutable_problem()->set_a_type(v1::DATA_TYPE_F16);
  *request.mutable_problem()->mutable_quantization() = ByGroups();
  status = CreateModel(request);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("more than is allowed"));
  request.mutable_problem()->clear_quantization();
  status = CreateModel(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(model_.problem().a_type(), v1::DATA_TYPE_F16);
  EXPECT_EQ(model_.problem().d_type(), v1::DATA_TYPE_F16);
}

}  // namespace
}  // namespace gemmd
