#include "service/gpu/device_image.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <string>
#include <vector>

namespace gemmd::gpu {
namespace {

struct Shape {
  int64_t lines;
  int64_t width;       // Bytes.
  int64_t from_pitch;  // Bytes.
};

jit::MatrixLayout LayoutOf(const Shape& shape) {
  return {jit::DataType::kU8, jit::Order::kRowMajor, shape.lines, shape.width};
}

std::string RandomBytes(int64_t size, std::mt19937& random) {
  std::string bytes(static_cast<size_t>(size), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random() | 1);
  return bytes;
}

// Cuts `bytes` anywhere, into pieces of up to `longest` bytes, some empty.
std::vector<absl::Span<const char>> Cut(const std::string& bytes,
                                        size_t longest, std::mt19937& random) {
  std::vector<absl::Span<const char>> pieces;
  for (size_t at = 0; at < bytes.size();) {
    const size_t size =
        std::min<size_t>(random() % (longest + 1), bytes.size() - at);
    pieces.push_back(absl::MakeConstSpan(bytes).subspan(at, size));
    at += size;
  }
  return pieces;
}

// The device image, line by line.
std::string Expected(const std::string& bytes, const Shape& shape) {
  const int64_t pitch = LayoutOf(shape).pitch_bytes();
  std::string image(static_cast<size_t>(shape.lines * pitch), '\0');
  for (int64_t line = 0; line < shape.lines; ++line) {
    for (int64_t i = 0; i < shape.width; ++i) {
      image[static_cast<size_t>(line * pitch + i)] =
          bytes[static_cast<size_t>(line * shape.from_pitch + i)];
    }
  }
  return image;
}

// Reads in chunks of up to `longest` bytes.
std::string ReadAll(DeviceImage image, size_t longest, std::mt19937& random) {
  std::string read;
  while (image.remaining_bytes() > 0) {
    const size_t size = std::min<size_t>(
        1 + random() % longest, static_cast<size_t>(image.remaining_bytes()));
    std::string chunk(size, '?');
    image.Read(absl::MakeSpan(chunk));
    read += chunk;
  }
  return read;
}

TEST(DeviceImageTest, EqualsALineByLineCopyHoweverBytesAreCut) {
  std::mt19937 random(20261121);
  const Shape shapes[] = {
      {1, 1, 1},     {1, 100, 100}, {7, 16, 16},   {7, 16, 48}, {5, 1, 1},
      {33, 31, 31},  {33, 31, 40},  {2, 500, 501}, {64, 2, 2},  {3, 16, 17},
      {1, 40, 1000}, {100, 15, 15}, {9, 32, 32},
  };
  for (const Shape& shape : shapes) {
    const std::string bytes =
        RandomBytes((shape.lines - 1) * shape.from_pitch + shape.width, random);
    for (const size_t piece : {1u, 3u, 64u, 100000u}) {
      for (const size_t chunk : {1u, 5u, 64u, 100000u}) {
        const auto pieces = Cut(bytes, piece, random);
        const auto image =
            DeviceImage::Create({pieces, shape.from_pitch}, LayoutOf(shape));
        ASSERT_TRUE(image.ok()) << image.status();
        EXPECT_EQ(ReadAll(*image, chunk, random), Expected(bytes, shape))
            << shape.lines << " lines of " << shape.width << " bytes, pitch "
            << shape.from_pitch << ", pieces up to " << piece
            << ", chunks up to " << chunk;
      }
    }
  }
}

TEST(DeviceImageTest, KnowsHowMuchIsLeft) {
  const std::string bytes(3 * 20, 'x');
  const absl::Span<const char> piece = bytes;
  auto image = DeviceImage::Create({{&piece, 1}, 20}, LayoutOf({3, 20, 20}));
  ASSERT_TRUE(image.ok());
  EXPECT_EQ(image->remaining_bytes(), 3 * 32);
  std::string chunk(33, '?');
  image->Read(absl::MakeSpan(chunk));
  EXPECT_EQ(image->remaining_bytes(), 3 * 32 - 33);
}

TEST(DeviceImageTest, RefusesTooFewBytes) {
  const std::string bytes(59, 'x');
  const absl::Span<const char> piece = bytes;
  EXPECT_EQ(DeviceImage::Create({{&piece, 1}, 20}, LayoutOf({3, 20, 20}))
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  // 2^31 lines, 2^33 bytes apart: their product has no 64-bit value.
  const int64_t many = (int64_t{1} << 31) - 1;
  EXPECT_EQ(DeviceImage::Create({{&piece, 1}, int64_t{1} << 33},
                                LayoutOf({many, 1, 1}))
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(DeviceImageTest, RefusesOverlappingLines) {
  const std::string bytes(100, 'x');
  const absl::Span<const char> piece = bytes;
  EXPECT_EQ(DeviceImage::Create({{&piece, 1}, 19}, LayoutOf({3, 20, 19}))
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(DeviceImageTest, OfOneLineAllBytesAreThereAndThePitchIsNothing) {
  const std::string bytes(100, 'x');
  const absl::Span<const char> piece = bytes;
  EXPECT_TRUE(
      DeviceImage::Create({{&piece, 1}, 0}, LayoutOf({1, 100, 0})).ok());
  EXPECT_EQ(DeviceImage::Create({{&piece, 1}, 101}, LayoutOf({1, 101, 101}))
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

// Bits behind the last element of a line would count as elements of k.
TEST(DeviceImageTest, SlackBitsOfALineAreZero) {
  std::mt19937 random(3);
  for (const int64_t columns : {1, 7, 8, 9, 127, 128, 131}) {
    for (const int64_t lines : {1, 5}) {
      const jit::MatrixLayout layout = {jit::DataType::kB1,
                                        jit::Order::kRowMajor, lines, columns};
      const int64_t width = layout.width_bytes();
      const std::string ones(static_cast<size_t>(lines * width), '\xff');
      const auto pieces = Cut(ones, 3, random);
      const auto image =
          DeviceImage::Create({.pieces = pieces, .pitch_bytes = width}, layout);
      ASSERT_TRUE(image.ok()) << image.status();
      const std::string read = ReadAll(*image, 5, random);
      for (int64_t line = 0; line < lines; ++line) {
        int64_t set = 0;
        for (int64_t i = 0; i < layout.pitch_bytes(); ++i) {
          set += std::popcount(static_cast<unsigned char>(
              read[static_cast<size_t>(line * layout.pitch_bytes() + i)]));
        }
        EXPECT_EQ(set, columns) << "of line " << line << " of " << lines;
      }
    }
  }
}

// A long line travels in parts, of which only the last one ends within a byte.
TEST(DeviceImageTest, PartsOfALineKnowWhereItEnds) {
  const jit::MatrixLayout layout = {jit::DataType::kB1, jit::Order::kRowMajor,
                                    3, 8 * 5000 - 3};
  const int64_t part = device::kLinePartBytes;
  EXPECT_EQ(
      device::LayoutOf(layout, {.first = 1, .count = 1, .bytes = part}).columns,
      8 * part);
  EXPECT_EQ(
      device::LayoutOf(
          layout,
          {.first = 1, .count = 1, .first_byte = part, .bytes = 5000 - part})
          .columns,
      8 * (5000 - part) - 3);
}

}  // namespace
}  // namespace gemmd::gpu
