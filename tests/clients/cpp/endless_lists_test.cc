// Lists that come by pages, of daemons that would never end them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "clients/cpp/client.h"
#include "clients/cpp/page_token.h"

namespace gemmd::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// What is said to be the page after one of this token.
using Next = std::function<std::string(const std::string&)>;

class EndlessTensors final : public v1::TensorService::Service {
 public:
  explicit EndlessTensors(Next next) : next_(std::move(next)) {}
  grpc::Status ListTensors(grpc::ServerContext*,
                           const v1::ListTensorsRequest* request,
                           v1::ListTensorsResponse* response) override {
    response->add_tensors()->set_handle("t");
    response->set_next_page_token(next_(request->page_token()));
    return grpc::Status::OK;
  }

 private:
  const Next next_;
};

class EndlessKernels final : public v1::KernelService::Service {
 public:
  explicit EndlessKernels(Next next) : next_(std::move(next)) {}
  grpc::Status ListKernels(grpc::ServerContext*,
                           const v1::ListKernelsRequest* request,
                           v1::ListKernelsResponse* response) override {
    response->add_kernels()->set_key("k");
    response->set_next_page_token(next_(request->page_token()));
    return grpc::Status::OK;
  }

 private:
  const Next next_;
};

std::string OneMore(const std::string& token) {
  return absl::StrCat(std::atoi(token.c_str()) + 1);
}

// How each list of such a daemon ends.
void EachList(const Next& next, absl::Duration timeout,
              const std::function<void(const absl::Status&)>& check) {
  EndlessTensors tensors(next);
  EndlessKernels kernels(next);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&tensors);
  builder.RegisterService(&kernels);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  Options options;
  options.timeout = timeout;
  const auto client =
      Client::Connect(absl::StrCat("127.0.0.1:", port), options);
  ASSERT_TRUE(client.ok()) << client.status();
  check((*client)->ListTensors().status());
  check((*client)->ListKernels().status());
}

TEST(EndlessListsTest, APageThatIsTheNextOfItselfEndsAList) {
  EachList([](const std::string&) { return "same"; }, absl::Seconds(60),
           [](const absl::Status& status) {
             EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
             EXPECT_THAT(std::string(status.message()),
                         AllOf(HasSubstr("after 2 pages"),
                               HasSubstr("the same again")));
           });
}

TEST(EndlessListsTest, AListHasNoMorePagesThanADaemonHasRoomFor) {
  EachList(OneMore, absl::Seconds(60), [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("does not end: after ",
                                       PageToken::kMostPages, " pages")));
  });
}

TEST(EndlessListsTest, TheTimeoutIsThatOfAllPages) {
  const auto late = [](const std::string& token) {
    absl::SleepFor(absl::Milliseconds(100));
    return OneMore(token);
  };
  EachList(late, absl::Milliseconds(550), [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  });
}

}  // namespace
}  // namespace gemmd::client
