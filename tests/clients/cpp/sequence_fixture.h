// A client of a real daemon on the host device, and a sequence for it.
#ifndef GEMMD_TESTS_CLIENTS_CPP_SEQUENCE_FIXTURE_H_
#define GEMMD_TESTS_CLIENTS_CPP_SEQUENCE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "clients/cpp/client.h"
#include "tests/integration/daemon_process.h"

namespace gemmd::client {

inline constexpr int64_t kM = 24, kInner = 40, kWidth = 16;

// Any bytes, as bf16 or f32, whose exponents are small.
inline std::string Random(int64_t bytes, unsigned seed) {
  std::string random(bytes, '\0');
  std::minstd_rand generator(seed);
  for (char& byte : random) byte = static_cast<char>((generator() >> 8) % 64);
  return random;
}

inline absl::Span<char> Span(std::string& bytes) {
  return absl::MakeSpan(bytes.data(), bytes.size());
}

// Of bf16.
inline Product Step(int64_t m, int64_t n, int64_t k) {
  Product step;
  step.problem.set_m(m);
  step.problem.set_n(n);
  step.problem.set_k(k);
  step.problem.set_a_type(v1::DATA_TYPE_BF16);
  step.problem.set_b_type(v1::DATA_TYPE_BF16);
  return step;
}

class SequenceFixture : public ::testing::Test {
 protected:
  // One daemon for all of them.
  static void SetUpTestSuite() {
    folder_ = new testing::TemporaryFolder;
    const std::string target = absl::StrCat("unix:", folder_->path(), "/gemmd");
    daemon_ = new testing::DaemonProcess(
        {"--device=host", "--listen=" + target, "--region-bytes=1MiB"});
    ASSERT_NE(daemon_->Connect(), nullptr) << daemon_->Log();
  }
  static void TearDownTestSuite() {
    delete daemon_;
    delete folder_;
  }

  static std::unique_ptr<Client> Connect(bool checksums) {
    Options options;
    options.timeout = absl::Seconds(60);
    options.checksums = checksums;
    auto client = Client::Connect(
        absl::StrCat("unix:", folder_->path(), "/gemmd"), options);
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }

  // relu(gelu(x w1 + bias) w2) w3 + x, each read by name.
  Sequence Mlp() const {
    Product first = Step(kM, kInner, kWidth);
    first.problem.mutable_epilogue()->set_bias(v1::EXTENT_COLUMN);
    first.problem.set_activation(v1::ACTIVATION_GELU_ERF);
    first.a = Operand::Bytes(x_);
    first.b = Operand::Bytes(w1_);
    first.bias = Operand::Bytes(bias_);
    first.d = Destination::Named("first");
    Product second = Step(kM, kInner, kInner);
    second.problem.set_activation(v1::ACTIVATION_RELU);
    second.problem.mutable_epilogue()->set_amax(true);
    second.a = Operand::Named("first");
    second.b = Operand::Bytes(w2_);
    second.d = Destination::Named("second");
    Product third = Step(kM, kWidth, kInner);
    third.problem.set_beta(1);
    third.problem.mutable_epilogue()->set_auxiliary(true);
    third.problem.set_activation(v1::ACTIVATION_SILU);
    third.a = Operand::Named("second");
    third.b = Operand::Bytes(w3_);
    third.c = Operand::Bytes(x_);
    return {.steps = {first, second, third}};
  }

  // What the steps give as single calls, each of which sends what it reads.
  std::vector<Result> OneByOne(Sequence sequence) {
    std::vector<Result> results(sequence.steps.size());
    for (size_t i = 0; i < results.size(); ++i) {
      Product& step = sequence.steps[i];
      if (i > 0) step.a = Operand::Bytes(results[i - 1].d);
      step.d = {};
      auto result = client_->Matmul(step);
      EXPECT_TRUE(result.ok()) << result.status();
      if (result.ok()) results[i] = *std::move(result);
    }
    return results;
  }

  std::string Tensor(int64_t rows, int64_t columns, const std::string& bytes) {
    v1::CreateTensorRequest request;
    request.set_dtype(v1::DATA_TYPE_BF16);
    request.set_rows(rows);
    request.set_columns(columns);
    const auto info = client_->CreateTensor(request);
    EXPECT_TRUE(info.ok()) << info.status();
    if (!bytes.empty()) {
      EXPECT_TRUE(
          client_->UploadTensor(info->handle(), RowMajor(), bytes).ok());
    }
    return info->handle();
  }
  std::string Fetch(const std::string& handle, size_t size) {
    std::string bytes(size, '\0');
    EXPECT_TRUE(client_->DownloadTensor(handle, RowMajor(), Span(bytes)).ok());
    return bytes;
  }
  static v1::Layout RowMajor() {
    v1::Layout layout;
    layout.set_order(v1::ORDER_ROW_MAJOR);
    return layout;
  }

  static inline testing::TemporaryFolder* folder_ = nullptr;
  static inline testing::DaemonProcess* daemon_ = nullptr;

  const std::string x_ = Random(kM * kWidth * 2, 1);
  const std::string w1_ = Random(kWidth * kInner * 2, 2);
  const std::string w2_ = Random(kInner * kInner * 2, 3);
  const std::string w3_ = Random(kInner * kWidth * 2, 4);
  const std::string bias_ = Random(kInner * 4, 5);
  const std::unique_ptr<Client> client_ = Connect(false);
};

}  // namespace gemmd::client

#endif  // GEMMD_TESTS_CLIENTS_CPP_SEQUENCE_FIXTURE_H_
