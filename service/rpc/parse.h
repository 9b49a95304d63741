// Parses what clients send as small messages of protobuf.
#ifndef GEMMD_SERVICE_RPC_PARSE_H_
#define GEMMD_SERVICE_RPC_PARSE_H_

#include <google/protobuf/message.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gemmd::rpc {

// Adds `bytes` to `message`. INVALID_ARGUMENT when they are none of its type,
// which then begins with `what` ("header"), or names the field whose text is
// not UTF-8.
absl::Status Parse(const std::string& bytes, absl::string_view what,
                   google::protobuf::Message& message);

// INVALID_ARGUMENT unless `text`, which is that of `field`, is UTF-8.
absl::Status CheckText(absl::string_view field, const std::string& text);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_PARSE_H_
