#include "proto/checksum/checksum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "gemmd/v1/checksum.pb.h"

namespace gemmd::checksum {
namespace {

using ::testing::HasSubstr;

// RFC 3720, appendix B.4.
TEST(Crc32cTest, HasTheValuesOfItsStandard) {
  EXPECT_EQ(Extend(0, std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Extend(0, std::string(32, '\xFF')), 0x62A8AB43u);
  std::string ascending;
  for (char i = 0; i < 32; ++i) ascending.push_back(i);
  EXPECT_EQ(Extend(0, ascending), 0x46DD794Eu);
  EXPECT_EQ(Extend(0, std::string(ascending.rbegin(), ascending.rend())),
            0x113FDB5Cu);
}

TEST(Crc32cTest, PartsAddUp) {
  EXPECT_EQ(Extend(0, ""), 0u);
  const std::string text = "123456789";
  EXPECT_EQ(Extend(0, text), 0xE3069283u);
  for (size_t at = 0; at <= text.size(); ++at) {
    EXPECT_EQ(Extend(Extend(0, text.substr(0, at)), text.substr(at)),
              0xE3069283u);
  }
}

TEST(ChecksumTest, IsTheSerialisedMessage) {
  for (const uint32_t crc : {0u, 1u, 0x80u, 0xFDFD7F7Fu, 0xFFFFFFFFu}) {
    v1::Checksum checksum;
    checksum.set_crc32c(crc);
    // What is 0 is sent all the same.
    EXPECT_EQ(crc == 0 ? "" : Encode(crc), checksum.SerializeAsString());
    EXPECT_EQ(Encode(crc).size(), kBytes);
    v1::Checksum parsed;
    ASSERT_TRUE(parsed.ParseFromString(Encode(crc)));
    EXPECT_EQ(parsed.crc32c(), crc);
    EXPECT_TRUE(Check(Encode(crc), 6, crc).ok());
  }
}

TEST(ChecksumTest, AnotherOneIsDataLoss) {
  const absl::Status other = Check(Encode(7), 100, 0x12345678);
  EXPECT_EQ(other.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(other.message(), HasSubstr("100 bytes"));
  EXPECT_THAT(other.message(), HasSubstr("12345678"));
  for (const std::string& last : {std::string(), std::string("abc"),
                                  std::string(6, '\0'), Encode(7).substr(1)}) {
    const absl::Status none = Check(last, last.size(), 7);
    EXPECT_EQ(none.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(none.message(), HasSubstr("does not end with a Checksum"));
  }
}

}  // namespace
}  // namespace gemmd::checksum
