// A resident matrix for a test.
#ifndef GEMMD_TESTS_INTEGRATION_CREATE_TENSOR_H_
#define GEMMD_TESTS_INTEGRATION_CREATE_TENSOR_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gemmd/v1/tensors.grpc.pb.h"

namespace gemmd::testing {

// Made over `channel`; the test fails where it is refused.
inline v1::TensorInfo CreateTensor(
    const std::shared_ptr<grpc::Channel>& channel, v1::DataType type,
    int64_t rows, int64_t columns, const std::string& device = "") {
  v1::CreateTensorRequest request;
  request.set_dtype(type);
  request.set_rows(rows);
  request.set_columns(columns);
  request.set_device(device);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(2)));
  v1::TensorInfo info;
  const grpc::Status status = v1::TensorService::NewStub(channel)->CreateTensor(
      &context, request, &info);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return info;
}

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_CREATE_TENSOR_H_
