#include "service/rpc/kserve/infer_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/fuzz/mutate.h"

namespace gemmd::rpc::kserve {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using Request = inference::ModelInferRequest;

Request Bytes(const std::string& a) {
  Request request;
  request.set_model_name("matmul");
  request.set_id("id");
  (*request.mutable_parameters())["alpha"].set_double_param(2);
  auto& input = *request.add_inputs();
  input.set_name("A");
  input.set_datatype("INT8");
  input.add_shape(a.size());
  request.add_raw_input_contents(a);
  return request;
}

Request Numbers(const std::vector<int>& values) {
  Request request = Bytes(std::string(values.size(), 'x'));
  request.clear_raw_input_contents();
  for (const int value : values) {
    request.mutable_inputs(0)->mutable_contents()->add_int_contents(value);
  }
  return request;
}

// Cut into pieces of `size`.
Pieces Cut(const std::string& bytes, size_t size) {
  Pieces pieces;
  for (size_t at = 0; at < bytes.size(); at += size) {
    pieces.push_back(Piece(bytes).subspan(at, size));
  }
  return pieces;
}

// What the input is, or the error's text.
std::string Read(const std::string& bytes, size_t piece_bytes = 1 << 20) {
  const Pieces pieces = Cut(bytes, piece_bytes);
  auto header = ReadInferHeader(pieces);
  if (!header.ok()) return std::string(header.status().message());
  auto request = ToInferRequest(*std::move(header));
  if (!request.ok()) return std::string(request.status().message());
  const int64_t decoded = DecodedBytes(*request);
  EXPECT_LE(decoded, 4 * static_cast<int64_t>(bytes.size()));
  const absl::Status status = Decode(*request);
  if (!status.ok()) return std::string(status.message());
  int64_t own = 0;
  for (const Input& input : request->inputs) own += input.own.size();
  EXPECT_EQ(own, decoded);
  std::string all;
  for (const Input& input : request->inputs) all += Join(input.data);
  return all;
}

bool TakesLong(const Request& request) {
  const std::string bytes = request.SerializeAsString();
  const Pieces pieces = {bytes};
  return kserve::TakesLong(
      ToInferRequest(ReadInferHeader(pieces).value()).value());
}

TEST(InferRequestTest, KnowsWhatTakesLong) {
  EXPECT_FALSE(TakesLong(Bytes(std::string(1 << 20, 'x'))));
  EXPECT_FALSE(TakesLong(Numbers(std::vector<int>(1 << 16, 1))));
  EXPECT_TRUE(TakesLong(Numbers(std::vector<int>((1 << 16) + 1, 1))));
  const auto batches = [](int64_t of_a, int64_t of_b) {
    Request request = Bytes(std::string(of_a, 'x'));
    *request.add_inputs() = request.inputs(0);
    request.mutable_inputs(1)->set_name("B");
    request.add_raw_input_contents(std::string(of_b, 'x'));
    for (const auto& [input, count] : {std::pair(0, of_a), {1, of_b}}) {
      auto& shape = *request.mutable_inputs(input)->mutable_shape();
      shape.Clear();
      for (const int64_t size : {count, int64_t{1}, int64_t{1}}) {
        shape.Add(size);
      }
    }
    return request;
  };
  EXPECT_FALSE(TakesLong(batches(32, 32)));
  EXPECT_TRUE(TakesLong(batches(32, 33)));
  EXPECT_FALSE(TakesLong(batches(0, 1024)));
}

TEST(InferRequestTest, LeavesBytesWhereTheyLie) {
  const std::string bytes = Bytes("abcdefgh").SerializeAsString();
  const Pieces pieces = Cut(bytes, 1 << 20);
  const InferHeader header = ReadInferHeader(pieces).value();
  EXPECT_EQ(header.message.id(), "id");
  EXPECT_EQ(header.message.parameters().at("alpha").double_param(), 2);
  EXPECT_EQ(header.message.raw_input_contents_size(), 0);
  const char* const at = header.raw.at(0).at(0).data();
  EXPECT_TRUE(at > bytes.data() && at < bytes.data() + bytes.size());
}

TEST(InferRequestTest, ReadsBytesHoweverTheyAreCut) {
  std::string elements(5000, '\0');
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = i * 7;
  const std::string bytes = Bytes(elements).SerializeAsString();
  for (const size_t size : {1, 2, 3, 100, 4096}) {
    EXPECT_EQ(Read(bytes, size), elements) << size;
  }
}

TEST(InferRequestTest, ReadsNumbersHoweverTheyAreCut) {
  const std::string bytes =
      Numbers({0, 1, -1, 127, -128, 100}).SerializeAsString();
  for (size_t size = 1; size < 20; ++size) {
    EXPECT_EQ(Read(bytes, size), std::string("\0\1\xff\x7f\x80\x64", 6));
  }
}

TEST(InferRequestTest, RefusesNumbersThatAreNoneOfTheType) {
  EXPECT_THAT(Read(Numbers({128}).SerializeAsString()), HasSubstr("hold 128"));
  EXPECT_THAT(Read(Numbers({-129}).SerializeAsString()),
              HasSubstr("hold -129"));
  EXPECT_THAT(Read(Numbers({1 << 30}).SerializeAsString()),
              HasSubstr("allowed for INT8: -128 to 127"));
}

TEST(InferRequestTest, OnlyWhatIsAddedMayBeInt32) {
  Request request = Bytes("abcd");
  auto& input = *request.mutable_inputs(0);
  input.set_datatype("INT32");
  input.set_shape(0, 1);
  for (const char* name : {"A", "B"}) {
    input.set_name(name);
    EXPECT_THAT(Read(request.SerializeAsString()),
                EndsWith("allowed: FP32, FP16, BF16, INT8, UINT8"));
  }
  input.set_name("C");
  EXPECT_EQ(Read(request.SerializeAsString()), "abcd");
}

TEST(InferRequestTest, TakesNoMoreThanASmallHeader) {
  Request request = Bytes("abcd");
  request.set_id(std::string(kMaxHeaderBytes, 'x'));
  EXPECT_THAT(Read(request.SerializeAsString()), HasSubstr("64 KiB in all"));
  request = Bytes(std::string(2 * kMaxHeaderBytes, 'x'));
  EXPECT_EQ(Read(request.SerializeAsString()).size(), 2 * kMaxHeaderBytes);
}

TEST(InferRequestTest, SurvivesNoise) {
  std::mt19937 random(1);
  Request numbers = Numbers({1, 2, -3, 4});
  for (const std::string& good :
       {Bytes("abcd").SerializeAsString(), numbers.SerializeAsString()}) {
    for (int i = 0; i < 20000; ++i) {
      Read(fuzz::Mutate(good, random), 1 + i % 30);
    }
  }
}

}  // namespace
}  // namespace gemmd::rpc::kserve
