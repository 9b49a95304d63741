// Messages read from slices that are cut at any byte.
#include "clients/cpp/slice_reader.h"

#include <gtest/gtest.h>

#include "absl/base/casts.h"
#include "gemmd/v1/matmul.pb.h"

namespace gemmd::client {
namespace {

grpc::ByteBuffer Cut(const std::string& bytes, size_t step) {
  std::vector<grpc::Slice> slices;
  for (size_t i = 0; i < bytes.size(); i += step) {
    slices.emplace_back(bytes.substr(i, step));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

TEST(SliceReaderTest, ReadsFieldsAcrossSlices) {
  v1::MatmulResponse response;
  response.mutable_execution()->set_kernel("kernel");
  response.set_d(std::string(300, 'd'));
  const std::string bytes = response.SerializeAsString();
  for (size_t step : {size_t{1}, size_t{2}, size_t{7}, bytes.size()}) {
    auto reader = SliceReader::Create(Cut(bytes, step));
    ASSERT_TRUE(reader.ok());
    auto field = reader->ReadField();
    ASSERT_TRUE(field.ok());
    EXPECT_EQ(field->number, 1);
    v1::Execution execution;
    EXPECT_TRUE(execution.ParseFromString(reader->Read(field->length)));
    EXPECT_EQ(execution.kernel(), "kernel");
    field = reader->ReadField();
    ASSERT_TRUE(field.ok());
    EXPECT_EQ(field->number, 2);
    std::string d(300, '\0');
    reader->Read(absl::MakeSpan(d.data(), d.size()));
    EXPECT_EQ(d, response.d());
    EXPECT_TRUE(reader->done());
  }
}

TEST(SliceReaderTest, SkipsOtherWireTypes) {
  const std::string bytes(
      "\x18\x05\x21"
      "8 bytes!"
      "\x2d"
      "4444"
      "\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
      "\x12\x01x",
      30);
  auto reader = SliceReader::Create(Cut(bytes, 3));
  ASSERT_TRUE(reader.ok());
  for (int number : {3, 4, 5, 6}) {
    const auto field = reader->ReadField();
    ASSERT_TRUE(field.ok());
    EXPECT_EQ(field->number, number);
    EXPECT_FALSE(field->delimited);
    EXPECT_EQ(field->length, 0u);
  }
  const auto field = reader->ReadField();
  ASSERT_TRUE(field.ok());
  EXPECT_EQ(reader->Read(field->length), "x");
  EXPECT_TRUE(reader->done());
}

TEST(SliceReaderTest, ReadsFloats) {
  v1::MatmulResponse response;
  response.set_amax(-0.375f);
  const auto bytes = response.SerializeAsString();
  auto reader = SliceReader::Create(Cut(bytes, 2));
  ASSERT_TRUE(reader.ok());
  const auto field = reader->ReadField();
  ASSERT_TRUE(field.ok());
  EXPECT_EQ(field->number, 4);
  ASSERT_TRUE(field->fixed32.has_value());
  EXPECT_EQ(absl::bit_cast<float>(*field->fixed32), -0.375f);
  EXPECT_TRUE(reader->done());
}

TEST(SliceReaderTest, RefusesMalformedMessages) {
  for (const std::string& bytes :
       {std::string("\x12\x05"
                    "abc"),
        std::string("\x80"), std::string("\x12"), std::string("\x0b"),
        std::string("\x21"
                    "1234"),
        std::string("\x25"
                    "12"),
        std::string(12, '\xff')}) {
    auto reader = SliceReader::Create(Cut(bytes, 2));
    ASSERT_TRUE(reader.ok());
    EXPECT_EQ(reader->ReadField().status().code(), absl::StatusCode::kInternal);
  }
}

TEST(SliceReaderTest, PrefixIsWhatProtobufWrites) {
  v1::MatmulRequest request;
  request.set_b(std::string(1000, 'b'));
  EXPECT_EQ(FieldPrefix(3, 1000) + request.b(), request.SerializeAsString());
}

}  // namespace
}  // namespace gemmd::client
