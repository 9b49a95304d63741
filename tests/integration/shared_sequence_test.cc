// Sequences whose operands and results lie in memory that clients share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/integration/eventually.h"
#include "tests/integration/identity_fixture.h"
#include "tests/integration/sequence_chain.h"
#include "tests/integration/shared_region.h"
#include "tests/integration/test_server.h"
#include "tests/service/gate.h"

namespace gemmd {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;
using testing::kRegionBytes;
using testing::Mappings;
using testing::OnesTimesTwos;
using testing::SharedRegion;
using testing::TestServer;

// Of 4 x 4 of bf16.
constexpr size_t kBytes = 32;
constexpr char kKey[] = "gemmd-idempotency-key";

class SharedSequenceTest : public ::testing::Test {
 protected:
  grpc::Status Send(const v1::SequenceRequest& request) {
    grpc::ClientContext context;
    return SendBy(context, request);
  }
  grpc::Status SendBy(grpc::ClientContext& context,
                      const v1::SequenceRequest& request) {
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(1)));
    return v1::MatmulService::NewStub(server_.unix_channel())
        ->Sequence(&context, request, &response_);
  }
  // Sends it, and leaves while the device works at the first step.
  void Leave(const v1::SequenceRequest& request,
             const std::string& idempotency_key = "") {
    const int before = gate_.arrived();
    gate_.Close();
    grpc::ClientContext context;
    if (!idempotency_key.empty()) context.AddMetadata(kKey, idempotency_key);
    grpc::Status status;
    std::thread client([&] { status = SendBy(context, request); });
    EXPECT_TRUE(gate_.WaitForArrivals(before + 1));
    context.TryCancel();
    client.join();
    EXPECT_EQ(status.error_code(), StatusCode::CANCELLED);
    // That it has gone is known.
    absl::SleepFor(absl::Milliseconds(100));
  }
  // The region's connection ends while the device works at the first step.
  void SendWhileItCloses(const v1::SequenceRequest& request) {
    const int before = gate_.arrived();
    gate_.Close();
    grpc::Status status;
    std::thread client([&] { status = Send(request); });
    EXPECT_TRUE(gate_.WaitForArrivals(before + 1));
    region_.Close();
    EXPECT_TRUE(testing::Eventually([&] {
      v1::CreateRegionRequest again;
      again.set_handle(region_.handle());
      grpc::ClientContext context;
      v1::RegionInfo info;
      return v1::RegionService::NewStub(server_.unix_channel())
                 ->CreateRegion(&context, again, &info)
                 .error_code() == StatusCode::NOT_FOUND;
    }));
    EXPECT_EQ(Mappings(), 2) << "the client's and the daemon's";
    gate_.Open();
    client.join();
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  void ExpectRefused(const v1::SequenceRequest& request, const std::string& why,
                     StatusCode code = StatusCode::INVALID_ARGUMENT) {
    std::memset(region_.bytes() + 4096, '.', 4096);
    const grpc::Status status = Send(request);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(why));
    EXPECT_EQ(region_.Take(4096, 4096), std::string(4096, '.'));
    EXPECT_EQ(server_.engine().tensors().bytes(), 0);
  }

  // With h returned, too.
  static v1::SequenceRequest Chain() {
    v1::SequenceRequest request = testing::Chain();
    request.mutable_steps(0)->mutable_d()->mutable_inline_();
    return request;
  }
  // The bytes of h and y.
  std::vector<std::string> Expected() {
    EXPECT_TRUE(Send(Chain()).ok());
    EXPECT_NE(response_.steps(0).d(), response_.steps(1).d());
    return {response_.steps(0).d(), response_.steps(1).d()};
  }
  // Chain() with an operand in the region at `offset`, lines of `pitch`
  // elements, and all results at 4096 and 4096 + kBytes.
  v1::SequenceRequest Shared(int operand = 1, int64_t offset = 64,
                             int64_t pitch = 4) {
    v1::SequenceRequest request = Chain();
    v1::SequenceOperand& from = *request.mutable_operands(operand);
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t at = std::clamp<int64_t>(offset, 0, kRegionBytes - 8 * 8);
      region_.Put(at + 2 * pitch * i, from.data().substr(8 * i, 8));
    }
    from.clear_data();
    region_.Name(offset, *from.mutable_region());
    if (pitch != 4) {
      from.mutable_region()->mutable_layout()->set_leading_dimension(pitch);
    }
    for (int i = 0; i < 2; ++i) Place(request, i, 4096 + kBytes * i);
    return request;
  }
  void Place(v1::SequenceRequest& request, int step, int64_t offset) {
    region_.Name(offset,
                 *request.mutable_steps(step)->mutable_d()->mutable_region());
  }

  testing::Gate gate_;
  TestServer::Options Options() {
    auto hooks = std::make_shared<testing::Hooks>();
    hooks->multiply = [this](const auto&, const auto&) {
      gate_.Pass();
      return absl::OkStatus();
    };
    return {.hooks = hooks};
  }
  TestServer server_{Options()};
  SharedRegion region_{server_};
  v1::SequenceResponse response_;
};

TEST_F(SharedSequenceTest, OperandsAndResultsAreInARegion) {
  const auto expected = Expected();
  for (const int operand : {0, 1}) {
    for (const int64_t pitch : {4, 7}) {
      std::memset(region_.bytes(), '.', kRegionBytes);
      const grpc::Status status = Send(Shared(operand, 61, pitch));
      ASSERT_TRUE(status.ok()) << status.error_message();
      EXPECT_EQ(response_.steps(0).d(), "");
      EXPECT_EQ(response_.steps(1).d(), "");
      EXPECT_EQ(region_.Take(4096, kBytes), expected[0]);
      EXPECT_EQ(region_.Take(4096 + kBytes, kBytes), expected[1]);
      EXPECT_EQ(region_.Take(4096 + 2 * kBytes, 9), ".........");
      EXPECT_EQ(region_.Take(4087, 9), ".........");
    }
  }
  EXPECT_EQ(server_.engine().tensors().bytes(), 0);
}

TEST_F(SharedSequenceTest, BytesBetweenLinesAreLeftAlone) {
  const auto expected = Expected();
  std::memset(region_.bytes(), '.', kRegionBytes);
  v1::SequenceRequest request = Chain();
  Place(request, 1, 100);
  request.mutable_steps(1)
      ->mutable_d()
      ->mutable_region()
      ->mutable_layout()
      ->set_leading_dimension(5);
  ASSERT_TRUE(Send(request).ok());
  EXPECT_EQ(response_.steps(0).d(), expected[0]) << "it is returned";
  std::string wanted(kRegionBytes, '.');
  for (int i = 0; i < 4; ++i) {
    wanted.replace(100 + 10 * i, 8, expected[1], 8 * i, 8);
  }
  EXPECT_TRUE(region_.Take(0, kRegionBytes) == wanted);
}

// The first step's result lies where the second one finds its operand.
TEST_F(SharedSequenceTest, StepsReadWhatWasThereBefore) {
  const auto expected = Expected();
  v1::SequenceRequest request = Shared();
  Place(request, 0, 64);
  Place(request, 1, 64 + kBytes);
  ASSERT_TRUE(Send(request).ok());
  EXPECT_EQ(region_.Take(64, kBytes), expected[0]);
  EXPECT_EQ(region_.Take(64 + kBytes, kBytes), expected[1]);
}

TEST_F(SharedSequenceTest, AResultWithoutANameGoesThereToo) {
  v1::SequenceRequest request = Shared();
  const auto expected = Expected();
  request.mutable_steps(0)->mutable_d()->clear_name();
  request.mutable_steps(1)->mutable_a()->set_name("ones");
  request.mutable_steps(1)->mutable_problem()->set_alpha(2);
  ASSERT_TRUE(Send(request).ok());
  // The room of the first one is not the second one's.
  EXPECT_EQ(region_.Take(4096, kBytes), expected[0]);
  EXPECT_NE(region_.Take(4096 + kBytes, kBytes), expected[0]);
}

TEST_F(SharedSequenceTest, SoDoesTheAuxiliaryResult) {
  v1::SequenceRequest request = Shared();
  v1::MatmulHeader& step = *request.mutable_steps(0);
  step.mutable_problem()->set_alpha(-1);
  step.mutable_problem()->set_activation(v1::ACTIVATION_RELU);
  step.mutable_problem()->mutable_epilogue()->set_auxiliary(true);
  step.mutable_auxiliary()->mutable_inline_();
  ASSERT_TRUE(Send(request).ok());
  const std::string expected = response_.steps(0).auxiliary();
  ASSERT_EQ(expected.size(), kBytes);
  region_.Name(8192, *step.mutable_auxiliary()->mutable_region());
  ASSERT_TRUE(Send(request).ok());
  EXPECT_EQ(response_.steps(0).auxiliary(), "");
  EXPECT_EQ(region_.Take(8192, kBytes), expected);
  // Beside the d of another step.
  region_.Name(4096 + 2 * kBytes - 1,
               *step.mutable_auxiliary()->mutable_region());
  ExpectRefused(request,
                "steps[1]: d.region overlaps auxiliary.region of steps[0]; "
                "allowed: bytes of their own");
  region_.Name(4096, *step.mutable_auxiliary()->mutable_region());
  ExpectRefused(request, "steps[0]: auxiliary and d overlap in a region");
}

TEST_F(SharedSequenceTest, EmptyResultsAreNowhere) {
  v1::SequenceRequest request = Chain();
  request.mutable_steps(0)->mutable_problem()->set_m(0);
  request.mutable_steps(1)->mutable_problem()->set_m(0);
  request.mutable_operands(0)->clear_data();
  for (int i = 0; i < 2; ++i) Place(request, i, 4096);
  std::memset(region_.bytes(), '.', kRegionBytes);
  const grpc::Status status = Send(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(region_.Take(0, kRegionBytes) == std::string(kRegionBytes, '.'));
}

TEST_F(SharedSequenceTest, OneMatrixServesABatch) {
  v1::SequenceRequest request = Shared();
  v1::SequenceOperand& ones = *request.mutable_operands(0);
  ones.set_data(ones.data() + ones.data() + ones.data());
  for (int i = 0; i < 2; ++i) {
    request.mutable_steps(i)->mutable_problem()->set_batch(3);
    Place(request, i, 4096 + 3 * kBytes * i);
  }
  request.mutable_operands(1)
      ->mutable_region()
      ->mutable_layout()
      ->set_batch_stride(0);
  // Which has no batch of its own.
  v1::MatmulHeader& square = *request.add_steps();
  square = request.steps(0);
  square.mutable_problem()->clear_batch();
  square.mutable_a()->set_name("twos");
  square.clear_d();
  const grpc::Status status = Send(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const auto expected = Expected();
  EXPECT_EQ(region_.Take(4096, 3 * kBytes),
            expected[0] + expected[0] + expected[0]);
}

TEST_F(SharedSequenceTest, WhatIsBeyondARegionIsRefused) {
  const std::string field =
      "steps[0]: b.name \"twos\": operand's region.offset";
  EXPECT_TRUE(Send(Shared(1, kRegionBytes - kBytes)).ok());
  for (const int64_t offset :
       {int64_t{-1}, static_cast<int64_t>(kRegionBytes - kBytes + 1),
        std::numeric_limits<int64_t>::max(),
        std::numeric_limits<int64_t>::min()}) {
    ExpectRefused(Shared(1, offset),
                  absl::StrCat(field, " is ", offset,
                               " and the matrix has 32 bytes; allowed: within "
                               "the region's 1048576"));
  }
  v1::SequenceRequest request = Shared();
  v1::Layout& layout =
      *request.mutable_operands(1)->mutable_region()->mutable_layout();
  layout.set_leading_dimension(3);
  ExpectRefused(request, "operand's region.layout.leading_dimension is 3");
  layout.set_leading_dimension(1 << 30);
  ExpectRefused(request, field);
  request = Shared();
  Place(request, 1, kRegionBytes - kBytes);
  EXPECT_TRUE(Send(request).ok());
  Place(request, 1, kRegionBytes - kBytes + 1);
  ExpectRefused(request, "steps[1]: d.region.offset is 1048545");
}

TEST_F(SharedSequenceTest, WhatDoesNotGoWithARegionIsRefused) {
  using R = v1::SequenceRequest;
  const auto refused = [&](const std::function<void(R&)>& change,
                           const std::string& text) {
    R request = Shared();
    change(request);
    ExpectRefused(request, text);
  };
  refused([](R& r) { r.mutable_operands(1)->set_data("x"); },
          "operands[1]: data is given and so is region; allowed: that alone");
  refused([](R& r) { r.mutable_operands(1)->mutable_layout(); },
          "operands[1]: layout is given and so is region");
  refused(
      [](R& r) {
        v1::Problem& problem = *r.mutable_steps(0)->mutable_problem();
        problem.set_k(32);
        problem.set_b_order(v1::ORDER_COLUMN_MAJOR);
        r.mutable_operands(0)->set_data(std::string(256, 0));
        problem.set_b_sparsity(v1::SPARSITY_2_4);
      },
      "steps[0]: b.name \"twos\": operand's region is given for sparse "
      "elements; allowed: others, or sent inline");
  refused(
      [this](R& r) {
        region_.Name(0, *r.mutable_steps(1)->mutable_b()->mutable_region());
      },
      "steps[1]: b.region is given; allowed in a step: a tensor, or a name, "
      "which an operand of the call in a region may have");
  refused([this](R& r) { Place(r, 1, 4096 + kBytes - 1); },
          "steps[1]: d.region overlaps d.region of steps[0]");
  refused([this](R& r) { Place(r, 1, 4096 - kBytes + 1); },
          "steps[1]: d.region overlaps d.region of steps[0]");
}

TEST_F(SharedSequenceTest, ARegionThatIsGoneIsUnknown) {
  const v1::SequenceRequest from = Shared();
  v1::SequenceRequest to = Chain();
  Place(to, 1, 4096);
  EXPECT_TRUE(Send(from).ok());
  EXPECT_TRUE(Send(to).ok());
  region_.Close();
  EXPECT_TRUE(testing::Eventually(
      [&] { return Send(from).error_code() == StatusCode::NOT_FOUND; }));
  ExpectRefused(from,
                "steps[0]: b.name \"twos\": operand's region: no such region",
                StatusCode::NOT_FOUND);
  ExpectRefused(to, "steps[1]: d.region: no such region",
                StatusCode::NOT_FOUND);
}

// The client lets go of it while the first step runs.
TEST_F(SharedSequenceTest, ASequenceKeepsWhatItReads) {
  const auto expected = Expected();
  v1::SequenceRequest request = Shared();
  for (v1::MatmulHeader& step : *request.mutable_steps()) {
    step.mutable_d()->mutable_inline_();
  }
  SendWhileItCloses(request);
  EXPECT_EQ(response_.steps(0).d(), expected[0]);
  EXPECT_EQ(response_.steps(1).d(), expected[1]);
  EXPECT_TRUE(testing::Eventually([] { return Mappings() == 1; }));
}

TEST_F(SharedSequenceTest, ASequenceKeepsWhatItWrites) {
  const auto expected = Expected();
  v1::SequenceRequest request = Chain();
  Place(request, 1, 4096);
  SendWhileItCloses(request);
  EXPECT_EQ(region_.Take(4096, kBytes), expected[1]);
  EXPECT_TRUE(testing::Eventually([] { return Mappings() == 1; }));
}

TEST_F(SharedSequenceTest, OfOneWhoLeavesBetweenStepsNothingIsWritten) {
  const v1::SequenceRequest request = Shared();
  std::memset(region_.bytes() + 4096, '.', 4096);
  Leave(request);
  region_.Close();
  EXPECT_GT(server_.engine().tensors().bytes(), 0);
  gate_.Open();
  EXPECT_TRUE(testing::Eventually(
      [&] { return server_.engine().tensors().bytes() == 0; }));
  EXPECT_TRUE(testing::Eventually([] { return Mappings() == 1; }));
  EXPECT_EQ(region_.Take(4096, 4096), std::string(4096, '.'));
}

TEST_F(SharedSequenceTest, WithAKeyItIsCompletedAndWrittenOnce) {
  const auto expected = Expected();
  const v1::SequenceRequest request = Shared();
  const std::string key = "0123456789abcdef";
  const auto again = [&] {
    grpc::ClientContext context;
    context.AddMetadata(kKey, key);
    return SendBy(context, request);
  };
  const int before = gate_.arrived();
  Leave(request, key);
  EXPECT_EQ(again().error_code(), StatusCode::RESOURCE_EXHAUSTED);
  gate_.Open();
  EXPECT_TRUE(testing::Eventually([&] { return again().ok(); }));
  EXPECT_EQ(gate_.arrived(), before + 2) << "each step once";
  EXPECT_EQ(region_.Take(4096, kBytes), expected[0]);
  EXPECT_EQ(region_.Take(4096 + kBytes, kBytes), expected[1]);
  EXPECT_EQ(response_.steps(1).execution().paths().d(), v1::PATH_SHARED);
  // What the client has there by now is its own, whether or not there still
  // is a region.
  std::memset(region_.bytes() + 4096, '.', 4096);
  EXPECT_TRUE(again().ok());
  region_.Close();
  EXPECT_TRUE(testing::Eventually([] { return Mappings() == 1; }));
  EXPECT_TRUE(again().ok());
  EXPECT_EQ(region_.Take(4096, 4096), std::string(4096, '.'));
}

TEST_F(SharedSequenceTest, PathsTellHowAStepsMatricesCame) {
  v1::SequenceRequest request = Shared();
  request.mutable_steps(1)->mutable_d()->mutable_inline_();
  ASSERT_TRUE(Send(request).ok());
  const v1::Paths& first = response_.steps(0).execution().paths();
  EXPECT_EQ(first.a(), v1::PATH_INLINE);
  EXPECT_EQ(first.b(), v1::PATH_SHARED);
  EXPECT_EQ(first.c(), v1::PATH_UNSPECIFIED);
  EXPECT_EQ(first.d(), v1::PATH_SHARED);
  const v1::Paths& second = response_.steps(1).execution().paths();
  EXPECT_EQ(second.a(), v1::PATH_TENSOR);
  EXPECT_EQ(second.b(), v1::PATH_SHARED);
  EXPECT_EQ(second.d(), v1::PATH_INLINE);
  request.mutable_steps(0)->mutable_d()->clear_region();
  ASSERT_TRUE(Send(request).ok());
  EXPECT_EQ(response_.steps(0).execution().paths().d(), v1::PATH_TENSOR);
}

// Those of other principals are not there.
TEST(SharedWithPrincipalsTest, ARegionIsItsOwners) {
  testing::PolicyFiles files;
  TestServer::Options options;
  options.identity.policy = files.WritePolicy(
      R"({"name": "alice", "roles": ["compute", "tensors"]},
         {"name": "bob", "roles": ["compute", "tensors"]})");
  options.identity.token_digests =
      files.Write("tokens", absl::StrCat(testing::PolicyFiles::LineOf("alice"),
                                         testing::PolicyFiles::LineOf("bob")));
  TestServer server(std::move(options));
  const testing::GivenMemory memory(kRegionBytes);
  testing::Giver giver(SharedRegion::SocketOf(server));
  const testing::PrincipalClient alice(server.address(), "alice"),
      bob(server.address(), "bob");
  v1::CreateRegionRequest create;
  create.set_handle(giver.Give(memory));
  v1::RegionInfo info;
  const grpc::Status created =
      alice.Call(&v1::RegionService::Stub::CreateRegion,
                 v1::RegionService::NewStub(server.channel()), create, &info);
  ASSERT_TRUE(created.ok()) << created.error_message();

  v1::SequenceRequest request;
  v1::MatmulHeader& step = *request.add_steps();
  *step.mutable_problem() = OnesTimesTwos(4, 4, 4).header().problem();
  step.mutable_problem()->set_d_type(v1::DATA_TYPE_BF16);
  step.mutable_a()->set_name("x");
  step.mutable_b()->set_name("x");
  v1::SequenceOperand& operand = *request.add_operands();
  operand.set_name("x");
  operand.mutable_region()->set_region(create.handle());
  const auto send = [&](const testing::PrincipalClient& who) {
    v1::SequenceResponse response;
    return who.Call(&v1::MatmulService::Stub::Sequence,
                    v1::MatmulService::NewStub(server.channel()), request,
                    &response);
  };
  grpc::Status status = send(alice);
  EXPECT_TRUE(status.ok()) << status.error_message();
  status = send(bob);
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("operand's region: no such"));
  operand.clear_region();
  operand.set_data(std::string(kBytes, '\0'));
  step.mutable_d()->mutable_region()->set_region(create.handle());
  EXPECT_TRUE(send(alice).ok());
  status = send(bob);
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("steps[0]: d.region: no such"));
}

}  // namespace
}  // namespace gemmd
