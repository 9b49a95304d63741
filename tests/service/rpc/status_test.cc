#include "service/rpc/status.h"

#include <gtest/gtest.h>

#include <string>

namespace gemmd::rpc {
namespace {

TEST(StatusTest, KeepsCodeAndMessage) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  const grpc::Status status = ToGrpc(absl::NotFoundError("no tensor"));
  EXPECT_EQ(status.error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "no tensor");
}

TEST(StatusTest, CutsWhatHeadersCannotCarry) {
  const grpc::Status status =
      ToGrpc(absl::InternalError(std::string(100000, 'x')));
  EXPECT_EQ(status.error_code(), grpc::INTERNAL);
  EXPECT_LT(status.error_message().size(), 2100);
}

}  // namespace
}  // namespace gemmd::rpc
