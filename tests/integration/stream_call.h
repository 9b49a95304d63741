// Products by MatmulStream, made of what Matmul would be sent.
#ifndef GEMMD_TESTS_INTEGRATION_STREAM_CALL_H_
#define GEMMD_TESTS_INTEGRATION_STREAM_CALL_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gemmd/v1/matmul.grpc.pb.h"

namespace gemmd::testing {

v1::MatmulStreamRequest StreamHeader(const v1::MatmulHeader& header);
v1::MatmulStreamRequest StreamChunk(v1::MatmulStreamRequest::Operand operand,
                                    const std::string& bytes);
// All messages of `request`, with chunks of at most `chunk_bytes`.
std::vector<v1::MatmulStreamRequest> ToStream(const v1::MatmulRequest& request,
                                              size_t chunk_bytes);

struct StreamAnswer {
  grpc::Status status;
  v1::MatmulResponse response;  // As Matmul would have it.
  size_t largest_bytes = 0;     // Of the messages.
};

// Sends all messages and the end, reads all answers.
StreamAnswer CallStream(const std::shared_ptr<grpc::Channel>& channel,
                        const std::vector<v1::MatmulStreamRequest>& messages,
                        absl::Duration timeout = absl::Seconds(60));

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_STREAM_CALL_H_
