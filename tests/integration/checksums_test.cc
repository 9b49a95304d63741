// Calls whose messages end with a Checksum, as raw bytes: what is damaged on
// its way is noticed, and counts for nothing.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "proto/checksum/checksum.h"
#include "tests/integration/stream_call.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using ::testing::HasSubstr;
using testing::OnesTimesTwos;
using ::testing::StartsWith;

std::string Guarded(const std::string& message) {
  return message + checksum::Encode(checksum::Extend(0, message));
}

// What `guarded` has before its Checksum; nothing when that is not its own.
std::optional<std::string> Unguarded(const std::string& guarded) {
  if (guarded.size() < checksum::kBytes) return std::nullopt;
  std::string message = guarded.substr(0, guarded.size() - checksum::kBytes);
  if (Guarded(message) != guarded) return std::nullopt;
  return message;
}

std::string Flipped(std::string message, size_t at) {
  message[at] = static_cast<char>(message[at] ^ 0x10);
  return message;
}

struct Answer {
  grpc::Status status;
  std::vector<std::string> messages;
};

class ChecksumsTest : public ::testing::Test {
 protected:
  // A call of any method with any messages.
  Answer Call(const std::string& method,
              const std::vector<std::string>& messages,
              const std::string& metadata = "crc32c") {
    grpc::GenericStub stub(server_.channel());
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
    if (!metadata.empty()) context.AddMetadata(checksum::kMetadata, metadata);
    size_t longest = 0;
    for (const std::string& message : messages) {
      longest = std::max(longest, message.size());
    }
    context.AddMetadata("gemmd-message-bytes", std::to_string(longest));
    grpc::CompletionQueue queue;
    const auto wait = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    const auto call = stub.PrepareCall(&context, "/gemmd.v1." + method, &queue);
    call->StartCall(nullptr);
    bool open = wait();
    for (const std::string& message : messages) {
      if (!open) break;
      const grpc::Slice slice(message);
      call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
      open = wait();
    }
    Answer answer;
    if (open) {
      call->WritesDone(nullptr);
      wait();
    }
    while (true) {
      grpc::ByteBuffer buffer;
      call->Read(&buffer, nullptr);
      if (!wait()) break;
      std::vector<grpc::Slice> slices;
      EXPECT_TRUE(buffer.Dump(&slices).ok());
      std::string& message = answer.messages.emplace_back();
      for (const grpc::Slice& slice : slices) {
        message.append(reinterpret_cast<const char*>(slice.begin()),
                       slice.size());
      }
    }
    call->Finish(&answer.status, nullptr);
    wait();
    return answer;
  }

  std::string CreateTensor(int64_t rows, int64_t columns) {
    v1::CreateTensorRequest request;
    request.set_dtype(v1::DATA_TYPE_U8);
    request.set_rows(rows);
    request.set_columns(columns);
    const Answer answer = Call("TensorService/CreateTensor",
                               {Guarded(request.SerializeAsString())});
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    v1::TensorInfo info;
    EXPECT_TRUE(info.ParseFromString(answer.messages.at(0)));
    return info.handle();
  }

  std::string Download(const std::string& handle, int64_t chunk_bytes) {
    v1::DownloadTensorRequest request;
    request.set_handle(handle);
    request.set_chunk_bytes(chunk_bytes);
    const Answer answer = Call("TensorService/DownloadTensor",
                               {Guarded(request.SerializeAsString())});
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    std::string bytes;
    for (const std::string& message : answer.messages) {
      v1::DownloadTensorResponse response;
      EXPECT_TRUE(Unguarded(message).has_value());
      EXPECT_TRUE(response.ParseFromString(message));
      bytes += response.data();
    }
    return bytes;
  }

  static std::vector<std::string> UploadOf(const std::string& handle,
                                           const std::string& bytes,
                                           size_t chunk_bytes) {
    v1::UploadTensorRequest request;
    request.mutable_header()->set_handle(handle);
    std::vector<std::string> messages = {Guarded(request.SerializeAsString())};
    for (size_t at = 0; at < bytes.size(); at += chunk_bytes) {
      request.set_data(bytes.substr(at, chunk_bytes));
      messages.push_back(Guarded(request.SerializeAsString()));
    }
    return messages;
  }

  testing::TestServer server_;
};

TEST_F(ChecksumsTest, ProductAndItsAnswerAreGuarded) {
  const std::string request = OnesTimesTwos(33, 17, 24).SerializeAsString();
  const Answer plain = Call("MatmulService/Matmul", {request}, "");
  ASSERT_TRUE(plain.status.ok()) << plain.status.error_message();
  EXPECT_FALSE(Unguarded(plain.messages.at(0)).has_value());

  const Answer answer = Call("MatmulService/Matmul", {Guarded(request)});
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  const auto message = Unguarded(answer.messages.at(0));
  ASSERT_TRUE(message.has_value());
  v1::MatmulResponse expected, response;
  ASSERT_TRUE(expected.ParseFromString(plain.messages.at(0)));
  ASSERT_TRUE(response.ParseFromString(*message));
  EXPECT_EQ(response.d(), expected.d());
}

TEST_F(ChecksumsTest, EveryBytePositionCounts) {
  const std::string request =
      Guarded(OnesTimesTwos(3, 5, 8).SerializeAsString());
  for (size_t at = 0; at < request.size(); ++at) {
    const Answer answer = Call("MatmulService/Matmul", {Flipped(request, at)});
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::DATA_LOSS) << at;
    EXPECT_TRUE(answer.messages.empty());
  }
}

TEST_F(ChecksumsTest, TheOneThatIsAnnouncedMustBeThere) {
  for (const std::string& message :
       {std::string(), std::string("abc"),
        OnesTimesTwos(3, 5, 8).SerializeAsString()}) {
    const Answer answer = Call("MatmulService/Matmul", {message});
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::DATA_LOSS);
    EXPECT_THAT(answer.status.error_message(),
                HasSubstr("does not end with a Checksum"));
  }
}

TEST_F(ChecksumsTest, OneThatNobodyAnnouncedIsAFieldLikeOthers) {
  const std::string request =
      OnesTimesTwos(3, 5, 8).SerializeAsString() + checksum::Encode(1);
  const Answer answer = Call("MatmulService/Matmul", {request}, "");
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
}

TEST_F(ChecksumsTest, OtherKindsAreRefused) {
  const std::string request = OnesTimesTwos(3, 5, 8).SerializeAsString();
  const Answer answer = Call("MatmulService/Matmul", {request}, "md5");
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(answer.status.error_message(),
              HasSubstr("gemmd-checksums is \"md5\"; allowed: crc32c"));
}

TEST_F(ChecksumsTest, MethodsWithoutMatricesAreGuardedToo) {
  const Answer info = Call("ServerService/GetServerInfo", {Guarded("")});
  ASSERT_TRUE(info.status.ok()) << info.status.error_message();
  EXPECT_TRUE(Unguarded(info.messages.at(0)).has_value());
  const Answer damaged = Call("ServerService/GetServerInfo", {"abcdef"});
  EXPECT_EQ(damaged.status.error_code(), grpc::StatusCode::DATA_LOSS);
}

TEST_F(ChecksumsTest, DamagedUploadChangesNothing) {
  const std::string handle = CreateTensor(40, 25);
  const std::string before(1000, 'b'), after(1000, 'a');
  ASSERT_TRUE(Call("TensorService/UploadTensor", UploadOf(handle, before, 300))
                  .status.ok());
  for (size_t i = 0; i < 5; ++i) {
    std::vector<std::string> messages = UploadOf(handle, after, 300);
    ASSERT_EQ(messages.size(), 5u);
    messages[i] = Flipped(messages[i], messages[i].size() / 2);
    const Answer answer = Call("TensorService/UploadTensor", messages);
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::DATA_LOSS) << i;
    EXPECT_EQ(Download(handle, 0), before);
  }
  ASSERT_TRUE(Call("TensorService/UploadTensor", UploadOf(handle, after, 300))
                  .status.ok());
  EXPECT_EQ(Download(handle, 0), after);
}

TEST_F(ChecksumsTest, StreamedProductIsGuarded) {
  const v1::MatmulRequest request = OnesTimesTwos(70, 33, 48);
  std::vector<std::string> messages;
  for (const auto& message : testing::ToStream(request, 1000)) {
    messages.push_back(Guarded(message.SerializeAsString()));
  }
  const Answer answer = Call("MatmulService/MatmulStream", messages);
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  std::string d;
  for (const std::string& message : answer.messages) {
    ASSERT_TRUE(Unguarded(message).has_value());
    v1::MatmulStreamResponse response;
    ASSERT_TRUE(response.ParseFromString(message));
    d += response.data();
  }
  v1::MatmulResponse expected;
  ASSERT_TRUE(expected.ParseFromString(
      Call("MatmulService/Matmul", {request.SerializeAsString()}, "")
          .messages.at(0)));
  EXPECT_EQ(d, expected.d());

  messages.back() = Flipped(messages.back(), 20);
  const Answer damaged = Call("MatmulService/MatmulStream", messages);
  EXPECT_EQ(damaged.status.error_code(), grpc::StatusCode::DATA_LOSS);
}

// Longer than what a loop does at once.
TEST_F(ChecksumsTest, LongMessagesAreGuarded) {
  const std::string request =
      Guarded(OnesTimesTwos(2048, 2, 2100).SerializeAsString());
  ASSERT_GT(request.size(), 8u << 20);
  const Answer answer = Call("MatmulService/Matmul", {request});
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_TRUE(Unguarded(answer.messages.at(0)).has_value());
  for (const size_t at : {size_t{100}, size_t{5} << 20, request.size() - 7}) {
    EXPECT_EQ(Call("MatmulService/Matmul", {Flipped(request, at)})
                  .status.error_code(),
              grpc::StatusCode::DATA_LOSS);
  }
  // And one whose answer is.
  const Answer wide =
      Call("MatmulService/Matmul",
           {Guarded(OnesTimesTwos(2100, 2100, 8).SerializeAsString())});
  ASSERT_TRUE(wide.status.ok()) << wide.status.error_message();
  ASSERT_GT(wide.messages.at(0).size(), 8u << 20);
  EXPECT_TRUE(Unguarded(wide.messages.at(0)).has_value());
}

}  // namespace
}  // namespace gemmd
