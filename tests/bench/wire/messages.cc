#include "tests/bench/wire/messages.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "clients/cpp/matmul_header.h"
#include "clients/cpp/slice_reader.h"
#include "clients/cpp/stream.h"
#include "clients/cpp/unary.h"
#include "gemmd/v1/matmul.pb.h"
#include "gemmd/v1/tensors.pb.h"
#include "jit/base/status.h"
#include "tests/bench/wire/bare_server.h"

namespace gemmd::wire {
namespace {

void Upload(const Load& load, const std::string& tensor, Messages& messages) {
  messages.method = "/gemmd.v1.TensorService/UploadTensor";
  v1::UploadTensorRequest header;
  header.mutable_header()->set_handle(tensor);
  messages.sent.push_back(header.SerializeAsString());
  for (int64_t left = load.tensor_bytes; left > 0; left -= kChunkBytes) {
    v1::UploadTensorRequest chunk;
    chunk.set_data(std::string(std::min(left, kChunkBytes), kFill));
    messages.sent.push_back(chunk.SerializeAsString());
  }
}

void Download(const std::string& tensor, Messages& messages) {
  messages.method = "/gemmd.v1.TensorService/DownloadTensor";
  v1::DownloadTensorRequest request;
  request.set_handle(tensor);
  request.set_chunk_bytes(kChunkBytes);
  messages.sent.push_back(request.SerializeAsString());
}

void Stream(const client::OutgoingProduct& product, Messages& messages) {
  using Request = v1::MatmulStreamRequest;
  messages.method = "/gemmd.v1.MatmulService/MatmulStream";
  Request header;
  *header.mutable_header() = product.header;
  messages.sent.push_back(header.SerializeAsString());
  for (const client::InlineOperand& operand : product.operands) {
    for (auto rest = operand.bytes; !rest.empty();) {
      const auto bytes = rest.subspan(0, kChunkBytes);
      rest.remove_prefix(bytes.size());
      Request message;
      Request::Chunk& chunk = *message.mutable_chunk();
      chunk.set_operand(static_cast<Request::Operand>(
          operand.field - v1::MatmulRequest::kAFieldNumber +
          Request::OPERAND_A));
      chunk.set_data(std::string(bytes.data(), bytes.size()));
      messages.sent.push_back(message.SerializeAsString());
    }
  }
}

void Inline(const client::OutgoingProduct& product, Messages& messages) {
  messages.method = "/gemmd.v1.MatmulService/Matmul";
  v1::MatmulRequest request;
  *request.mutable_header() = product.header;
  std::string& message = messages.sent.emplace_back();
  message = request.SerializeAsString();
  for (const client::InlineOperand& operand : product.operands) {
    absl::StrAppend(
        &message, client::FieldPrefix(operand.field, operand.bytes.size()),
        absl::string_view(operand.bytes.data(), operand.bytes.size()));
  }
}

absl::Status Exchange(const std::shared_ptr<grpc::Channel>& channel,
                      const std::string& method, const Messages& messages,
                      grpc::ClientContext& context) {
  context.set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
  client::Announce(context, messages.longest(), false);
  client::Stream stream(channel, method, context);
  bool open = true;
  for (const std::string& message : messages.sent) {
    const grpc::Slice slice(message.data(), message.size(),
                            grpc::Slice::STATIC_SLICE);
    open = open && stream.Write(grpc::ByteBuffer(&slice, 1));
  }
  int64_t returned_bytes = 0;
  if (open && stream.WritesDone()) {
    for (grpc::ByteBuffer message; stream.Read(message);) {
      returned_bytes += static_cast<int64_t>(message.Length());
    }
  }
  RETURN_IF_ERROR(stream.Finish());
  if (returned_bytes >= messages.returned_bytes) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(method, " returned ", returned_bytes,
                                          " bytes, fewer than ",
                                          messages.returned_bytes));
}

}  // namespace

int64_t Messages::longest() const {
  size_t longest = 0;
  for (const std::string& one : sent) longest = std::max(longest, one.size());
  return static_cast<int64_t>(longest);
}

int64_t Messages::sent_bytes() const {
  int64_t sum = 0;
  for (const std::string& one : sent) sum += static_cast<int64_t>(one.size());
  return sum;
}

Messages MessagesOf(Way way, const Load& load, const std::string& tensor,
                    const client::Product& product) {
  Messages messages;
  messages.returned_bytes = load.returned_bytes(way);
  messages.chunk_bytes = kChunkBytes;
  switch (way) {
    case Way::kUpload:
      Upload(load, tensor, messages);
      break;
    case Way::kDownload:
      Download(tensor, messages);
      break;
    case Way::kStream:
      Stream(client::ToOutgoing(product), messages);
      break;
    case Way::kInline:
      Inline(client::ToOutgoing(product), messages);
      messages.chunk_bytes = messages.returned_bytes;
      break;
  }
  return messages;
}

absl::Status Exchange(const std::shared_ptr<grpc::Channel>& channel,
                      const Messages& messages) {
  grpc::ClientContext context;
  return Exchange(channel, messages.method, messages, context);
}

absl::Status ExchangeBare(const std::shared_ptr<grpc::Channel>& channel,
                          const Messages& messages) {
  grpc::ClientContext context;
  AskBare({.awaited_bytes = messages.sent_bytes(),
           .returned_bytes = messages.returned_bytes,
           .chunk_bytes = messages.chunk_bytes},
          context);
  return Exchange(channel, "/wire/Exchange", messages, context);
}

}  // namespace gemmd::wire
