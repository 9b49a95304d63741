#include "jit/compile/worker_protocol.h"

#include <gtest/gtest.h>

#include "jit/base/record.h"

namespace gemmd::jit {
namespace {

// A reply as a worker that lies would write it.
std::string ReplyWithCode(int64_t code) {
  RecordWriter writer;
  writer.AddInt(3, code);
  writer.Add(4, "message");
  writer.Add(5, "cubin");
  writer.Add(6, "log");
  return std::move(writer).Release();
}

TEST(WorkerProtocolTest, ARepliedStatusArrives) {
  for (const absl::Status& status :
       {absl::InternalError("nonsense"), absl::UnauthenticatedError("last"),
        absl::CancelledError("first")}) {
    absl::StatusOr<CompileOutput> output = CompileOutput{};
    ASSERT_TRUE(DecodeReply(EncodeReply(status), output).ok());
    EXPECT_EQ(output.status(), status);
  }
  absl::StatusOr<CompileOutput> output = absl::UnknownError("");
  ASSERT_TRUE(
      DecodeReply(EncodeReply(CompileOutput{.cubin = "c", .log = "l"}), output)
          .ok());
  EXPECT_EQ(output->cubin, "c");
  EXPECT_EQ(output->log, "l");
}

// 2^32 becomes OK in an int, and an OK status is no error to hold.
TEST(WorkerProtocolTest, ACodeThatIsNoneIsNonsense) {
  for (const int64_t code : {int64_t{1} << 32, int64_t{1} << 62, int64_t{-1},
                             int64_t{17}, int64_t{-1} << 32}) {
    absl::StatusOr<CompileOutput> output = absl::UnknownError("");
    EXPECT_TRUE(absl::IsDataLoss(DecodeReply(ReplyWithCode(code), output)))
        << code;
  }
}

}  // namespace
}  // namespace gemmd::jit
