// What is wrong with a sequence is told with its step, and its deadline ends
// it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/clients/cpp/sequence_fixture.h"

namespace gemmd::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Text(const absl::Status& status) {
  return std::string(status.message());
}

class SequenceTest : public SequenceFixture {
 protected:
  absl::Status Error(const Sequence& sequence) {
    return client_->Run(sequence).status();
  }
  // Of Mlp(), which `spoil` makes wrong.
  template <typename Spoil, typename Matcher>
  void ExpectInvalid(const Spoil& spoil, const Matcher& text) {
    Sequence mlp = Mlp();
    spoil(mlp);
    const absl::Status error = Error(mlp);
    EXPECT_TRUE(absl::IsInvalidArgument(error)) << error;
    EXPECT_THAT(Text(error), text);
  }
};

TEST_F(SequenceTest, WrongNamesAreToldWithTheirStep) {
  ExpectInvalid([](auto& mlp) { mlp.steps[1].a.name = "furst"; },
                AllOf(StartsWith("steps[1]: a.name is \"furst\"; allowed: "),
                      HasSubstr("\"first\"")));
  ExpectInvalid([](auto& mlp) { mlp.steps[2].d = Destination::Named("first"); },
                StartsWith("steps[2]: d.name \"first\" is taken by steps[0]"));
  ExpectInvalid([](auto& mlp) { mlp.steps[0].d.name = std::string(65, 'x'); },
                StartsWith("steps[0]: d.name has 65 bytes"));
  // Names are for sequences alone, however the product goes.
  Product alone = Step(1024, 1024, 1024);
  const std::string large(1024 * 1024 * 2, '\0');
  alone.a = Operand::Bytes(large);
  alone.b = Operand::Bytes(large);
  for (const Destination& named :
       {Destination{.name = "d"}, Destination{.name = "d", .returned = true}}) {
    alone.d = named;
    for (const bool stream : {false, true}) {
      alone.stream_bytes = stream ? 0 : 1 << 30;
      for (const int connections : {1, 2}) {
        alone.striping = {.connections = connections, .least_bytes = 0};
        const absl::Status error = client_->Matmul(alone).status();
        EXPECT_TRUE(absl::IsInvalidArgument(error)) << error;
        EXPECT_THAT(Text(error), HasSubstr("d.name is given; allowed in"));
      }
    }
  }
}

TEST_F(SequenceTest, WrongStepsAreToldWithTheirPlace) {
  ExpectInvalid([](auto& mlp) { mlp.steps[1].problem.set_k(kInner + 1); },
                StartsWith("steps[1]: a.name \"first\" is bf16 24 x 40"));
  ExpectInvalid([](auto& mlp) { mlp.steps[2].b.bytes.remove_suffix(2); },
                AllOf(StartsWith("steps[2]: b.name \"operand "),
                      HasSubstr("operand's data has 1278 bytes")));
  ExpectInvalid([](auto& mlp) { mlp.steps[2].c = {}; },
                AllOf(StartsWith("steps[2]: c."), HasSubstr("has 0 bytes")));
  ExpectInvalid([](auto& mlp) { mlp.steps[1].device = "host"; },
                StartsWith("steps[1]: device"));
  ExpectInvalid([](auto& mlp) { mlp.device = "cuda:7"; },
                StartsWith("device is unknown"));
  Sequence mlp = Mlp();
  mlp.device = "host";
  EXPECT_TRUE(Error(mlp).ok());
}

TEST_F(SequenceTest, ATensorThatIsGoneIsToldWithItsStep) {
  const std::string handle = Tensor(kInner, kInner, w2_);
  Sequence mlp = Mlp();
  mlp.steps[1].b = Operand::Tensor(handle);
  EXPECT_TRUE(Error(mlp).ok());
  ASSERT_TRUE(client_->DeleteTensor(handle).ok());
  const absl::Status error = Error(mlp);
  EXPECT_TRUE(absl::IsNotFound(error));
  EXPECT_THAT(Text(error), AllOf(StartsWith("steps[1]: b"), HasSubstr(handle)));
}

TEST_F(SequenceTest, BuffersOfAnotherSizeAreToldWithTheirStep) {
  Sequence mlp = Mlp();
  std::string small(6, '\0');
  mlp.steps[2].d = Destination::Bytes(Span(small));
  const absl::Status error = Error(mlp);
  EXPECT_TRUE(absl::IsInternal(error));
  EXPECT_EQ(Text(error),
            "steps[2]: the daemon sent 768 bytes of D; the buffer has 6");
}

TEST_F(SequenceTest, DeadlinesEndIt) {
  constexpr int64_t kSide = 512;
  const std::string square = Random(kSide * kSide * 2, 7);
  Product step = Step(kSide, kSide, kSide);
  step.a = Operand::Bytes(square);
  step.b = Operand::Bytes(square);
  Sequence sequence = {.steps = std::vector<Product>(12, step)};
  sequence.timeout = absl::Milliseconds(1);
  const absl::Status error = Error(sequence);
  EXPECT_TRUE(absl::IsDeadlineExceeded(error)) << error;
  // Not that of a step.
  Sequence mlp = Mlp();
  mlp.steps[0].timeout = absl::Nanoseconds(1);
  EXPECT_TRUE(Error(mlp).ok());
}

}  // namespace
}  // namespace gemmd::client
