// Sequences of a real daemon on the host device: the bits are those of single
// calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "tests/clients/cpp/sequence_fixture.h"

namespace gemmd::client {
namespace {

using SequenceTest = SequenceFixture;

TEST_F(SequenceTest, AnMlpIsThreeCallsBitForBit) {
  const Sequence mlp = Mlp();
  const std::vector<Result> expected = OneByOne(mlp);
  EXPECT_THAT(expected[2].d, ::testing::Contains(::testing::Ne('\0')));
  EXPECT_NE(expected[2].d, expected[2].auxiliary);
  for (const bool checksums : {false, true}) {
    const auto client = Connect(checksums);
    const int64_t before = client->GetStatistics()->requests();
    const auto found = client->Run(mlp);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(client->GetStatistics()->requests(), before + 1);
    ASSERT_EQ(found->steps.size(), 3u);
    EXPECT_EQ(found->steps[0].d, "");
    EXPECT_EQ(found->steps[1].d, "");
    EXPECT_EQ(found->steps[1].amax, expected[1].amax);
    EXPECT_EQ(found->steps[2].d, expected[2].d);
    EXPECT_EQ(found->steps[2].auxiliary, expected[2].auxiliary);
    EXPECT_EQ(found->steps[2].amax, std::nullopt);
    EXPECT_EQ(found->execution(2).device(), "host");
    EXPECT_GT(found->phases.execute_us(), 0);
  }
  EXPECT_EQ(client_->GetStatistics()->tensor_bytes(), 0);
}

TEST_F(SequenceTest, WhatIsEncodedOnceIsReadAnewByEachRun) {
  Sequence mlp = Mlp();
  std::string x(mlp.steps[0].a.bytes.begin(), mlp.steps[0].a.bytes.end());
  std::string d(OneByOne(mlp)[2].d.size(), '\0');
  mlp.steps[0].a.bytes = Span(x);
  mlp.steps[2].d = Destination::Bytes(Span(d));
  const EncodedSequence encoded(mlp);
  for (const bool checksums : {false, true}) {
    const auto client = Connect(checksums);
    for (int i = 0; i < 3; ++i) {
      absl::c_copy(Random(static_cast<int64_t>(x.size()), 100 + i), x.begin());
      const auto expected = client->Run(mlp);
      ASSERT_TRUE(expected.ok()) << expected.status();
      const std::string expected_d = d;
      d.assign(d.size(), 'x');
      const auto found = client->Run(encoded);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(d, expected_d);
      EXPECT_EQ(found->steps[2].auxiliary, expected->steps[2].auxiliary);
      EXPECT_EQ(found->steps[1].amax, expected->steps[1].amax);
    }
  }
}

TEST_F(SequenceTest, WhatIsLateFromTheStartNeverRuns) {
  const EncodedSequence encoded(Mlp());
  const int64_t before = client_->GetStatistics()->requests();
  for (int i = 0; i < 100; ++i) {
    const auto late = client_->Run(encoded, absl::Seconds(-1));
    EXPECT_EQ(late.status().code(), absl::StatusCode::kDeadlineExceeded);
  }
  EXPECT_EQ(client_->GetStatistics()->requests(), before);
}

TEST_F(SequenceTest, EachRunOfWhatIsEncodedHasItsOwnKey) {
  const std::string sum = Tensor(kM, kWidth, "");
  Product add = Step(kM, kWidth, kWidth);
  add.problem.set_beta(1);
  add.a = Operand::Bytes(x_);
  add.b = Operand::Bytes(absl::MakeSpan(w1_).first(kWidth * kWidth * 2));
  add.c = Operand::Tensor(sum);
  add.d = Destination::Tensor(sum);
  const EncodedSequence encoded(
      {.steps = {add}, .idempotency_key = "one that does not count"});
  const auto after = [&](const std::string& key) {
    const auto ran = client_->Run(encoded, absl::ZeroDuration(), key);
    EXPECT_TRUE(ran.ok()) << ran.status();
    return Fetch(sum, x_.size());
  };
  const std::string once = after("0123456789abcdef");
  EXPECT_THAT(once, ::testing::Contains(::testing::Ne('\0')));
  EXPECT_EQ(after("0123456789abcdef"), once);
  const std::string twice = after("fedcba9876543210");
  EXPECT_NE(twice, once);
  EXPECT_NE(after(""), twice);
}

TEST_F(SequenceTest, ResultsWithANameAreReturnedWhereThatIsAskedFor) {
  Sequence mlp = Mlp();
  const std::vector<Result> expected = OneByOne(mlp);
  std::string second(expected[1].d.size(), '\0');
  mlp.steps[0].d.returned = true;
  mlp.steps[1].d.bytes = Span(second);
  const auto found = client_->Run(mlp);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->steps[0].d, expected[0].d);
  EXPECT_EQ(found->steps[1].d, "");
  EXPECT_EQ(second, expected[1].d);
  EXPECT_EQ(found->steps[2].d, expected[2].d);
}

TEST_F(SequenceTest, AuxiliaryResultsHaveNamesToo) {
  Product first = Step(kM, kM, kWidth);
  first.problem.mutable_epilogue()->set_auxiliary(true);
  first.problem.set_activation(v1::ACTIVATION_SILU);
  first.a = Operand::Bytes(x_);
  first.b = Operand::Bytes(x_);
  first.problem.set_b_order(v1::ORDER_COLUMN_MAJOR);
  Product second = Step(kM, kM, kM);
  const auto alone = client_->Matmul(first);
  ASSERT_TRUE(alone.ok()) << alone.status();
  second.a = Operand::Bytes(alone->d);
  second.b = Operand::Bytes(alone->auxiliary);
  const auto expected = client_->Matmul(second);
  ASSERT_TRUE(expected.ok()) << expected.status();
  first.d = Destination::Named("d");
  first.auxiliary = Destination::Named("before");
  second.a = Operand::Named("d");
  second.b = Operand::Named("before");
  const auto found = client_->Run({.steps = {first, second}});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->steps[0].auxiliary, "");
  EXPECT_EQ(found->steps[1].d, expected->d);
}

// Scores of attention: a result times the transpose of another one, and the
// same of tensors.
TEST_F(SequenceTest, WhatIsNamedOrATensorMayBeReadTransposed) {
  Product product = Step(kM, kM, kWidth);
  product.problem.set_b_order(v1::ORDER_COLUMN_MAJOR);
  const std::string y = Random(kM * kWidth * 2, 9);
  product.a = Operand::Bytes(y);
  product.b = Operand::Bytes(x_);  // In column-major order, as x transposed.
  const auto expected = client_->Matmul(product);
  ASSERT_TRUE(expected.ok()) << expected.status();

  const std::string handle = Tensor(kM, kWidth, x_);
  product.b = Operand::Tensor(handle);
  EXPECT_TRUE(absl::IsInvalidArgument(client_->Matmul(product).status()));
  product.b.transposed = true;
  const auto transposed = client_->Matmul(product);
  ASSERT_TRUE(transposed.ok()) << transposed.status();
  EXPECT_EQ(transposed->d, expected->d);

  std::string one(kWidth * kWidth * 2, '\0');
  for (int64_t i = 0; i < kWidth; ++i) {
    one.replace(i * (kWidth + 1) * 2, 2, "\x80\x3f");
  }
  Product copy = Step(kM, kWidth, kWidth);
  copy.a = Operand::Tensor(handle);
  copy.b = Operand::Bytes(one);
  copy.d = Destination::Named("x");
  product.b.tensor = "";
  product.b.name = "x";
  const auto found = client_->Run({.steps = {copy, product}});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->steps[1].d, expected->d);
  EXPECT_TRUE(client_->DeleteTensor(handle).ok());
}

TEST_F(SequenceTest, OperandsAndResultsAreTensorsAndInSharedMemory) {
  Sequence mlp = Mlp();
  const std::vector<Result> expected = OneByOne(mlp);
  auto memory = client_->Share(64 << 10);
  ASSERT_TRUE(memory.ok()) << memory.status();
  const absl::Span<char> bytes = (*memory)->bytes();
  absl::c_copy(x_, bytes.begin() + 64);
  absl::c_copy(w2_, bytes.begin() + 4096);
  const std::string w1 = Tensor(kWidth, kInner, w1_);
  const std::string d = Tensor(kM, kInner, "");
  mlp.steps[0].a = Operand::Shared(**memory, 64);
  mlp.steps[0].b = Operand::Tensor(w1);
  mlp.steps[0].d = Destination::Tensor(d);
  mlp.steps[1].a = Operand::Tensor(d);
  mlp.steps[1].b = Operand::Shared(**memory, 4096);
  mlp.steps[1].d = Destination::Shared(**memory, 16 << 10);
  mlp.steps[1].d.name = "second";
  mlp.steps[2].c = Operand::Shared(**memory, 64);
  // Over what it read, with lines apart.
  mlp.steps[2].d = Destination::Shared(**memory, 64, kWidth + 8);
  const auto found = client_->Run(mlp);
  ASSERT_TRUE(found.ok()) << found.status();
  for (const Returned& step : found->steps) EXPECT_EQ(step.d, "");
  EXPECT_EQ(Fetch(d, expected[0].d.size()), expected[0].d);
  const absl::string_view shared(bytes.data(), bytes.size());
  EXPECT_EQ(shared.substr(16 << 10, expected[1].d.size()), expected[1].d);
  for (int64_t row = 0; row < kM; ++row) {
    EXPECT_EQ(shared.substr(64 + row * (kWidth + 8) * 2, kWidth * 2),
              expected[2].d.substr(row * kWidth * 2, kWidth * 2));
  }
  EXPECT_EQ(found->steps[2].auxiliary, expected[2].auxiliary);
  EXPECT_TRUE(client_->DeleteTensor(w1).ok());
  EXPECT_TRUE(client_->DeleteTensor(d).ok());
}

// What has the same bytes is one operand only where it is the same matrix.
TEST_F(SequenceTest, BytesAreReadAsEachStepSays) {
  const std::string bytes = Random(kInner * kInner * 2, 6);
  std::vector<Product> steps;
  for (const int64_t k : {kInner, kInner / 2}) {
    for (const auto order : {v1::ORDER_ROW_MAJOR, v1::ORDER_COLUMN_MAJOR}) {
      Product step = Step(kInner * kInner / k, kInner * kInner / k, k);
      step.problem.set_a_order(order);
      step.a = Operand::Bytes(bytes);
      step.b = Operand::Bytes(bytes);
      steps.push_back(step);
    }
  }
  Product batch = Step(kInner / 2, kInner / 2, kInner);
  batch.problem.set_batch(2);
  batch.a = Operand::Bytes(bytes);
  batch.b = Operand::Bytes(bytes);
  steps.push_back(batch);
  // One matrix for all products, which a C is in another way.
  batch.problem.set_m(kInner);
  batch.problem.set_n(kInner);
  batch.a.batch_stride = 0;
  batch.b.batch_stride = 0;
  batch.c = batch.a;
  batch.problem.set_beta(1);
  steps.push_back(batch);
  const auto found = client_->Run({.steps = steps});
  ASSERT_TRUE(found.ok()) << found.status();
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto expected = client_->Matmul(steps[i]);
    ASSERT_TRUE(expected.ok()) << i << ": " << expected.status();
    EXPECT_EQ(found->steps[i].d, expected->d) << i;
  }
}

TEST_F(SequenceTest, NoStepsAreNoError) {
  const auto found = client_->Run({});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->steps.empty());
}

}  // namespace
}  // namespace gemmd::client
