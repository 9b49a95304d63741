#include "jit/base/record.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace gemmd::jit {
namespace {

TEST(RecordTest, AFieldThatIsThereTwiceIsNone) {
  RecordWriter writer;
  writer.Add(1, "once");
  writer.Add(2, "twice");
  writer.Add(2, "other");
  const std::string bytes = std::move(writer).Release();
  const absl::StatusOr<Record> record = Record::Parse(bytes);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->Get(1).value_or(""), "once");
  EXPECT_TRUE(absl::IsDataLoss(record->Get(2).status()));
  EXPECT_EQ(record->GetAll(2).size(), 2u);
  EXPECT_TRUE(absl::IsDataLoss(record->Get(3).status()));
}

TEST(RecordTest, AnIntegerHasEightBytes) {
  RecordWriter writer;
  writer.AddInt(1, -2);
  for (const uint32_t size : {7, 9}) writer.Add(size, std::string(size, '\1'));
  const std::string bytes = std::move(writer).Release();
  const absl::StatusOr<Record> record = Record::Parse(bytes);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->GetInt(1).value_or(0), -2);
  EXPECT_TRUE(absl::IsDataLoss(record->GetInt(7).status()));
  EXPECT_TRUE(absl::IsDataLoss(record->GetInt(9).status()));
}

}  // namespace
}  // namespace gemmd::jit
