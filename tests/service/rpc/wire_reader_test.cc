#include "service/rpc/wire_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "gemmd/v1/matmul.pb.h"
#include "service/rpc/matmul_request.h"
#include "service/rpc/wire_writer.h"
#include "tests/fuzz/mutate.h"

namespace gemmd::rpc {
namespace {

v1::MatmulRequest Request() {
  v1::MatmulRequest request;
  request.mutable_header()->mutable_problem()->set_m(7);
  request.set_a(std::string(300, 'a'));  // A length of two bytes.
  request.set_b("bb");
  request.set_c("");
  return request;
}

Pieces Split(const std::string& bytes, std::vector<size_t> cuts) {
  Pieces pieces;
  size_t at = 0;
  cuts.push_back(bytes.size());
  for (const size_t cut : cuts) {
    pieces.push_back(Piece(bytes.data() + at, cut - at));
    at = cut;
  }
  return pieces;
}

TEST(WireReaderTest, ReadsWhatProtobufWritesHoweverItIsCut) {
  const std::string bytes = Request().SerializeAsString();
  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (const size_t second : {first, first + 1, bytes.size()}) {
      if (second > bytes.size()) continue;
      const Pieces pieces = Split(bytes, {first, second});
      const auto fields = ReadMatmulFields(pieces);
      ASSERT_TRUE(fields.ok()) << fields.status();
      ASSERT_EQ(fields->header.problem().m(), 7);
      ASSERT_EQ(Join(fields->a), std::string(300, 'a'));
      ASSERT_EQ(Join(fields->b), "bb");
      ASSERT_TRUE(fields->c.empty());
    }
  }
}

TEST(WireReaderTest, HandsOutBytesInPlace) {
  const std::string bytes = Request().SerializeAsString();
  const Pieces pieces = Split(bytes, {});
  const auto fields = ReadMatmulFields(pieces);
  ASSERT_TRUE(fields.ok());
  ASSERT_EQ(fields->a.size(), 1);
  EXPECT_GE(fields->a[0].data(), bytes.data());
  EXPECT_LE(fields->a[0].end(), bytes.data() + bytes.size());
}

TEST(WireReaderTest, TellsTheValuesOfNumbers) {
  v1::MatmulStreamRequest::Chunk chunk;
  chunk.set_operand(v1::MatmulStreamRequest::Operand(300));  // Of two bytes.
  chunk.set_data("bytes");
  const std::string bytes = chunk.SerializeAsString();
  const Pieces pieces = Split(bytes, {2});
  WireReader reader(pieces);
  ASSERT_TRUE(*reader.Next());
  EXPECT_EQ(reader.varint(), 300u);
  ASSERT_TRUE(*reader.Next());
  EXPECT_EQ(reader.varint(), 0u);
  EXPECT_EQ(Join(reader.value()), "bytes");
}

TEST(WireReaderTest, TakesAnyOrderAndTheLastOccurrence) {
  v1::MatmulRequest operands;
  operands.set_a("old");
  v1::MatmulRequest again;
  again.set_a("new");
  v1::MatmulRequest header;
  header.mutable_header()->mutable_problem()->set_m(7);
  v1::MatmulRequest more;
  more.mutable_header()->mutable_problem()->set_n(9);
  const std::string bytes =
      operands.SerializeAsString() + header.SerializeAsString() +
      again.SerializeAsString() + more.SerializeAsString();
  const Pieces pieces = Split(bytes, {});
  const auto fields = ReadMatmulFields(pieces);
  ASSERT_TRUE(fields.ok());
  EXPECT_EQ(Join(fields->a), "new");
  EXPECT_EQ(fields->header.problem().m(), 7);  // Merged, as protobuf does.
  EXPECT_EQ(fields->header.problem().n(), 9);
}

TEST(WireReaderTest, SkipsUnknownFieldsOfEveryWireType) {
  const std::string unknown =
      "\x98\x06\x05"  // 99: varint.
      "\x9d\x06"
      "1234"  // 99: 32 bits.
      "\x99\x06"
      "12345678"  // 99: 64 bits.
      "\x9a\x06\x03"
      "abc";  // 99: bytes.
  const std::string bytes = unknown + Request().SerializeAsString() + unknown;
  const Pieces pieces = Split(bytes, {});
  const auto fields = ReadMatmulFields(pieces);
  ASSERT_TRUE(fields.ok()) << fields.status();
  EXPECT_EQ(Join(fields->b), "bb");
}

TEST(WireReaderTest, EveryTruncationIsRefusedOrEndsAtAField) {
  const std::string bytes = Request().SerializeAsString();
  int accepted = 0;
  for (size_t length = 0; length < bytes.size(); ++length) {
    const std::string cut = bytes.substr(0, length);
    const Pieces pieces = Split(cut, {});
    const auto fields = ReadMatmulFields(pieces);
    if (fields.ok()) {
      ++accepted;
    } else {
      EXPECT_EQ(fields.status().code(), absl::StatusCode::kInvalidArgument);
    }
  }
  EXPECT_EQ(accepted, 3);  // Nothing; the header; the header and a.
}

// Each is a message but for one fault, which is the one that is named.
TEST(WireReaderTest, RefusesWhatIsNotAMessage) {
  const struct {
    std::string bytes;
    std::string says;
  } kFaults[] = {
      {std::string("\x00\x01", 2), "bad field number"},      // 0.
      {"\x80\x80\x80\x80\x80\x01\x01", "bad field number"},  // Beyond 2^29.
      {"\x0b\x0c", "wire type 3"},                           // A group.
      {"\x0e", "wire type 6"},
      {"\x78" + std::string(10, '\xff') + "\x01", "more than ten bytes"},
      {"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
       "18446744073709551615 bytes where 0 are left"},
      {"\x0a\x02\xff\xff", "not a serialised MatmulHeader"},
  };
  for (const auto& [bytes, says] : kFaults) {
    const Pieces pieces = Split(bytes, {});
    const absl::Status status = ReadMatmulFields(pieces).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StrContains(status.message(), says))
        << testing::PrintToString(bytes) << " gives " << status;
  }
}

// protobuf's own parser is the oracle: whatever it takes is read the same way,
// however it is cut, and whatever it refuses is refused.
TEST(WireReaderTest, AgreesWithProtobufOnMutatedMessages) {
  std::mt19937 random(1);
  v1::MatmulRequest seed = Request();
  seed.set_a("aaaa");  // Short, so that most mutations hit structure.
  seed.set_bias("s");
  int taken = 0;
  int refused = 0;
  for (int i = 0; i < 50000; ++i) {
    const std::string bytes = fuzz::Mutate(seed.SerializeAsString(), random);
    size_t cut = random() % (bytes.size() + 1);
    const Pieces pieces = Split(bytes, {cut / 2, cut});
    const auto fields = ReadMatmulFields(pieces);
    v1::MatmulRequest expected;
    if (!expected.ParseFromString(bytes)) {
      ++refused;
      EXPECT_EQ(fields.status().code(), absl::StatusCode::kInvalidArgument)
          << absl::CHexEscape(bytes);
      continue;
    }
    if (!fields.ok()) {  // Groups are protobuf's, not ours.
      EXPECT_THAT(fields.status().message(), testing::HasSubstr("wire type 3"))
          << absl::CHexEscape(bytes);
      continue;
    }
    ++taken;
    EXPECT_EQ(fields->header.SerializeAsString(),
              expected.header().SerializeAsString());
    EXPECT_EQ(Join(fields->a), expected.a());
    EXPECT_EQ(Join(fields->b), expected.b());
    EXPECT_EQ(Join(fields->c), expected.c());
    EXPECT_EQ(Join(fields->bias), expected.bias());
    EXPECT_EQ(Join(fields->a_scale), expected.a_scale());
    EXPECT_EQ(Join(fields->b_scale), expected.b_scale());
    EXPECT_EQ(Join(fields->d_scale), expected.d_scale());
  }
  EXPECT_GT(taken, 5000);
  EXPECT_GT(refused, 5000);
}

TEST(WireReaderTest, RefusesAHugeHeader) {
  v1::MatmulRequest request;
  request.mutable_header()->set_device(std::string(1 << 20, 'x'));
  const std::string bytes = request.SerializeAsString();
  const Pieces pieces = Split(bytes, {});
  const absl::Status status = ReadMatmulFields(pieces).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "header has")) << status;
}

TEST(WireReaderTest, RefusesMoreFieldsThanAnyClientSends) {
  std::string bytes;
  for (int i = 0; i < WireReader::kMaxFields; ++i) bytes += "\x78\x01";
  const Pieces most = Split(bytes, {});
  EXPECT_TRUE(ReadMatmulFields(most).ok());
  bytes += "\x78\x01";
  const Pieces more = Split(bytes, {});
  EXPECT_THAT(ReadMatmulFields(more).status().message(),
              testing::HasSubstr("more than 64 fields"));
}

TEST(WireReaderTest, ReadsNumbersAcrossEmptyPieces) {
  const std::string bytes = "\x78\xff\x01\x12\x01z";
  const Piece all(bytes);
  const Pieces pieces = {all.subspan(0, 0), all.subspan(0, 2),
                         all.subspan(2, 0), all.subspan(2), all.subspan(0, 0)};
  const auto fields = ReadMatmulFields(pieces);
  ASSERT_TRUE(fields.ok()) << fields.status();
  EXPECT_EQ(Join(fields->a), "z");
}

TEST(WireWriterTest, WritesWhatProtobufReads) {
  v1::Execution execution;
  execution.set_kernel("gemm");
  WireWriter writer;
  writer.AddMessage(v1::MatmulResponse::kExecutionFieldNumber, execution);
  writer.AddBytes(v1::MatmulResponse::kDFieldNumber,
                  {grpc::Slice("first "), grpc::Slice(std::string(200, 'x'))});
  grpc::ByteBuffer buffer = std::move(writer).Finish();
  const Message message(buffer);
  v1::MatmulResponse response;
  ASSERT_TRUE(response.ParseFromString(Join(message.pieces())));
  EXPECT_EQ(response.execution().kernel(), "gemm");
  EXPECT_EQ(response.d(), "first " + std::string(200, 'x'));
}

TEST(WireWriterTest, WritesMessagesWithinMessages) {
  v1::Phases phases;
  phases.set_plan_us(5);
  WireWriter writer;
  const auto add_step = [&](absl::string_view d) {
    WireWriter step;
    if (!d.empty()) {
      step.AddBytes(v1::MatmulResponse::kDFieldNumber,
                    {grpc::Slice(std::string(d))});
    }
    writer.AddWritten(v1::SequenceResponse::kStepsFieldNumber, std::move(step));
  };
  add_step("");
  const std::string d(200, 'D');
  add_step(d);
  add_step("");
  writer.AddMessage(v1::SequenceResponse::kPhasesFieldNumber, phases);
  writer.AddPacked(v1::SequenceResponse::kStepExecutionsFieldNumber, {});
  writer.AddPacked(v1::SequenceResponse::kStepExecutionsFieldNumber,
                   {0, 300, 1});
  grpc::ByteBuffer buffer = std::move(writer).Finish();
  const Message message(buffer);
  v1::SequenceResponse response;
  ASSERT_TRUE(response.ParseFromString(Join(message.pieces())));
  ASSERT_EQ(response.steps_size(), 3) << "one that has nothing counts too";
  EXPECT_EQ(response.steps(1).d(), d);
  EXPECT_EQ(response.phases().plan_us(), 5);
  EXPECT_THAT(response.step_executions(), testing::ElementsAre(0, 300, 1));
  EXPECT_EQ(message.pieces().size(), 3u) << "what is small goes together";
}

}  // namespace
}  // namespace gemmd::rpc
