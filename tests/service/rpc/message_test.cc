#include "service/rpc/message.h"

#include <gtest/gtest.h>

#include <string>

namespace gemmd::rpc {
namespace {

Message MakeMessage(const std::vector<std::string>& texts) {
  std::vector<grpc::Slice> slices;
  for (const std::string& text : texts) slices.emplace_back(text);
  grpc::ByteBuffer buffer(slices.data(), slices.size());
  return Message(buffer);
}

TEST(MessageTest, KeepsSlicesInOrderAndDropsEmptyOnes) {
  const Message message = MakeMessage({"ab", "", std::string(100, 'c'), "d"});
  EXPECT_EQ(message.pieces().size(), 3);
  EXPECT_EQ(message.size(), 103);
  EXPECT_EQ(Join(message.pieces()), "ab" + std::string(100, 'c') + "d");
}

TEST(MessageTest, PiecesSurviveAMove) {
  Message message = MakeMessage({"small"});  // Held inside the slice.
  const Message moved = std::move(message);
  EXPECT_EQ(Join(moved.pieces()), "small");
}

// A checksum may come in two parts.
TEST(MessageTest, TheLastBytesAreTakenFromAsManyPiecesAsHaveThem) {
  const std::string first(1 << 20, 'x');
  Message message = MakeMessage({first + "ab", "cd"});
  ASSERT_EQ(message.pieces().size(), 2);
  EXPECT_EQ(message.TakeLast(4), "abcd");
  EXPECT_EQ(message.size(), 1 << 20);
  EXPECT_EQ(Join(message.pieces()), first);
}

// `count` pieces of `size` bytes of one buffer, `gap` bytes apart.
Message MakeParts(const std::string& bytes, size_t count, size_t size,
                  size_t gap) {
  const grpc::Slice all(bytes.data(), bytes.size());
  std::vector<grpc::Slice> slices;
  for (size_t i = 0; i < count; ++i) {
    slices.push_back(all.sub(i * (size + gap), i * (size + gap) + size));
  }
  grpc::ByteBuffer buffer(slices.data(), slices.size());
  return Message(buffer);
}

TEST(MessageTest, PartsThatKeepMuchElseAreCopied) {
  std::string bytes(1 << 20, 'x');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i % 7);
  std::string parts;
  for (int i = 0; i < 100; ++i) parts += bytes.substr(i * 10064, 64);
  const Message message = MakeParts(bytes, 100, 64, 10000);
  EXPECT_EQ(message.pieces().size(), 1);
  EXPECT_EQ(message.size(), 6400);
  EXPECT_EQ(Join(message.pieces()), parts);
}

TEST(MessageTest, PartsThatKeepLittleElseStayWhereTheyAre) {
  const std::string bytes(1 << 20, 'x');
  // On end, but for headers of frames; of calls that take turns; a single one.
  EXPECT_EQ(MakeParts(bytes, 100, 64, 9).pieces().size(), 100);
  EXPECT_EQ(MakeParts(bytes, 16, 16 << 10, 48 << 10).pieces().size(), 16);
  EXPECT_EQ(MakeParts(bytes, 1, 64, 0).pieces().size(), 1);
}

TEST(PieceQueueTest, GivesAndDropsAnyAmount) {
  const std::string all = "abcdefghijklmnopqrstuvwxyz";
  for (size_t step = 1; step <= all.size(); ++step) {
    PieceQueue queue;
    for (size_t at = 0; at < all.size(); at += 4) {
      Message message = MakeMessage({all.substr(at, 1), all.substr(at + 1, 3)});
      Pieces pieces = message.pieces();
      queue.Append(std::move(message), std::move(pieces));
    }
    ASSERT_EQ(queue.size(), all.size());
    std::string seen;
    while (queue.size() > 0) {
      const int64_t count = std::min<int64_t>(step, queue.size());
      seen += Join(queue.Front(count));
      queue.Drop(count);
    }
    EXPECT_EQ(seen, all);
  }
}

TEST(PieceQueueTest, CountsAllOfWhatItKeeps) {
  PieceQueue queue;
  // Of a message, all is kept for a few bytes.
  Message message = MakeMessage({std::string(20000, 'x'), "data"});
  Pieces pieces = {message.pieces().back()};
  queue.Append(std::move(message), std::move(pieces));
  EXPECT_EQ(queue.size(), 4);
  EXPECT_EQ(queue.held_bytes(), 20004);
  queue.Drop(1);
  EXPECT_EQ(queue.held_bytes(), 20004);
  queue.Detach();
  EXPECT_EQ(Join(queue.Front(3)), "ata");
  EXPECT_EQ(queue.held_bytes(), 3);
  queue.Drop(3);
  EXPECT_EQ(queue.held_bytes(), 0);
}

// A buffer is kept for as little as that: of an upload in messages of 1 KiB,
// among what others send, 8 MiB kept 400.
TEST(PieceQueueTest, KeepsNoBuffersOfSmallMessages) {
  PieceQueue queue;
  std::string all;
  for (const size_t size : {24, 1000, 16383, 16384}) {
    const std::string bytes(size, static_cast<char>('a' + all.size() % 26));
    Message message = MakeMessage({bytes});
    const Piece data = message.pieces().front();
    queue.Append(std::move(message), {data});
    all += bytes;
    const bool copied = queue.Front(queue.size()).back().data() != data.data();
    EXPECT_EQ(copied, size < 16384);
  }
  EXPECT_EQ(queue.held_bytes(), queue.size());
  EXPECT_TRUE(Join(queue.Front(queue.size())) == all);
}

}  // namespace
}  // namespace gemmd::rpc
