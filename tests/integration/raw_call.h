// Connections of their own, and unary calls of any method with any bytes.
// Thread-safe.
#ifndef GEMMD_TESTS_INTEGRATION_RAW_CALL_H_
#define GEMMD_TESTS_INTEGRATION_RAW_CALL_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

#include "absl/time/time.h"

namespace gemmd::testing {

// Channels of one process would share a connection otherwise.
std::shared_ptr<grpc::Channel> Connect(const std::string& address);

// `response` may be null.
grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel,
                     const std::string& method, const std::string& request,
                     absl::Duration timeout, std::string* response = nullptr);

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_RAW_CALL_H_
