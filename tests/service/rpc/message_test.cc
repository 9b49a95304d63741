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
  Message message = MakeMessage({std::string(1000, 'x'), "data"});
  Pieces pieces = {message.pieces().back()};
  queue.Append(std::move(message), std::move(pieces));
  EXPECT_EQ(queue.size(), 4);
  EXPECT_EQ(queue.held_bytes(), 1004);
  queue.Drop(1);
  EXPECT_EQ(queue.held_bytes(), 1004);
  queue.Detach();
  EXPECT_EQ(Join(queue.Front(3)), "ata");
  EXPECT_EQ(queue.held_bytes(), 3);
  queue.Drop(3);
  EXPECT_EQ(queue.held_bytes(), 0);
}

}  // namespace
}  // namespace gemmd::rpc
