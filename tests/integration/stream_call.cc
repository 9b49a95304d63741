#include "tests/integration/stream_call.h"

#include <algorithm>

#include "absl/time/clock.h"

namespace gemmd::testing {

v1::MatmulStreamRequest StreamHeader(const v1::MatmulHeader& header) {
  v1::MatmulStreamRequest message;
  *message.mutable_header() = header;
  return message;
}

v1::MatmulStreamRequest StreamChunk(v1::MatmulStreamRequest::Operand operand,
                                    const std::string& bytes) {
  v1::MatmulStreamRequest message;
  message.mutable_chunk()->set_operand(operand);
  message.mutable_chunk()->set_data(bytes);
  return message;
}

std::vector<v1::MatmulStreamRequest> ToStream(const v1::MatmulRequest& request,
                                              size_t chunk_bytes) {
  std::vector<v1::MatmulStreamRequest> messages = {
      StreamHeader(request.header())};
  const std::string* const operands[] = {&request.a(),       &request.b(),
                                         &request.c(),       &request.bias(),
                                         &request.a_scale(), &request.b_scale(),
                                         &request.d_scale()};
  for (int i = 0; i < 7; ++i) {
    const std::string& bytes = *operands[i];
    for (size_t at = 0; at < bytes.size(); at += chunk_bytes) {
      messages.push_back(
          StreamChunk(static_cast<v1::MatmulStreamRequest::Operand>(i + 1),
                      bytes.substr(at, chunk_bytes)));
    }
  }
  return messages;
}

StreamAnswer CallStream(const std::shared_ptr<grpc::Channel>& channel,
                        const std::vector<v1::MatmulStreamRequest>& messages,
                        absl::Duration timeout) {
  const auto stub = v1::MatmulService::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  size_t longest = 0;
  for (const auto& message : messages) {
    longest = std::max(longest, message.ByteSizeLong());
  }
  context.AddMetadata("gemmd-message-bytes", std::to_string(longest));
  const auto stream = stub->MatmulStream(&context);
  for (const auto& message : messages) {
    if (!stream->Write(message)) break;
  }
  stream->WritesDone();
  StreamAnswer answer;
  for (v1::MatmulStreamResponse message; stream->Read(&message);) {
    answer.largest_bytes =
        std::max(answer.largest_bytes, message.ByteSizeLong());
    answer.response.mutable_d()->append(message.data());
    answer.response.mutable_auxiliary()->append(message.auxiliary());
    if (message.has_amax()) answer.response.set_amax(message.amax());
    if (message.has_execution()) {
      *answer.response.mutable_execution() = message.execution();
    }
  }
  answer.status = stream->Finish();
  return answer;
}

}  // namespace gemmd::testing
