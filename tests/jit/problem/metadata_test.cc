#include "jit/problem/metadata.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace gemmd::jit {
namespace {

constexpr DataType kTypes[] = {DataType::kBf16, DataType::kF32};

// As types.proto has them.
const std::set<int>& Legal(DataType type) {
  static const std::set<int> of_four = {0x4, 0x8, 0x9, 0xc, 0xd, 0xe};
  static const std::set<int> of_two = {0x4, 0xe};
  return type == DataType::kF32 ? of_two : of_four;
}

TEST(MetadataTest, EveryByteIsLegalWhenBothOfItsChunksAre) {
  for (const DataType type : kTypes) {
    for (int byte = 0; byte < 256; ++byte) {
      const char metadata = static_cast<char>(byte);
      const bool low = Legal(type).contains(byte & 0xf);
      const bool high = Legal(type).contains(byte >> 4);
      EXPECT_EQ(FirstIllegalChunk(type, {&metadata, 1}), !low    ? 0
                                                         : !high ? 1
                                                                 : 2)
          << byte;
      EXPECT_EQ(MetadataOf(&metadata, 0), byte & 0xf);
      EXPECT_EQ(MetadataOf(&metadata, 1), byte >> 4);
    }
  }
}

TEST(MetadataTest, TheFirstIllegalChunkIsFoundWhereverItIs) {
  for (const DataType type : kTypes) {
    for (const size_t size : {1, 7, 8, 127, 128, 129, 500}) {
      std::string metadata(size, kFirstPlaces);
      EXPECT_EQ(FirstIllegalChunk(type, metadata), 2 * size);
      for (size_t at = 0; at < size; ++at) {
        for (const int half : {0, 1}) {
          std::string wrong = metadata;
          wrong[at] = static_cast<char>(half == 0 ? 0x45 : 0x54);
          wrong.back() = static_cast<char>(wrong.back() & 0xf0);
          const int64_t expected = 2 * at + half;
          EXPECT_EQ(FirstIllegalChunk(type, wrong),
                    std::min<int64_t>(expected, 2 * (size - 1)))
              << size << " " << at;
        }
      }
    }
  }
}

TEST(MetadataTest, PlacesAreLowBitsThenHighBits) {
  EXPECT_EQ(PlacesOf(DataType::kBf16, 0x9).first, 1);
  EXPECT_EQ(PlacesOf(DataType::kBf16, 0x9).second, 2);
  EXPECT_EQ(PlacesOf(DataType::kS8, 0xc).first, 0);
  EXPECT_EQ(PlacesOf(DataType::kS8, 0xc).second, 3);
  EXPECT_EQ(PlacesOf(DataType::kF32, 0x4).first, 0);
  EXPECT_EQ(PlacesOf(DataType::kF32, 0xe).first, 1);
}

}  // namespace
}  // namespace gemmd::jit
