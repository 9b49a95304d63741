// Each limit that a request meets is counted under its own name: by these an
// operator finds the option to change.
#ifndef GEMMD_TESTS_INTEGRATION_REJECTIONS_FIXTURE_H_
#define GEMMD_TESTS_INTEGRATION_REJECTIONS_FIXTURE_H_

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "service/monitor/rejections.h"
#include "tests/integration/test_server.h"
#include "tests/service/gate.h"

namespace gemmd::testing {

constexpr char kMatmul[] = "/gemmd.v1.MatmulService/Matmul";

class RejectionsTest : public ::testing::Test {
 protected:
  using Counts = std::map<std::string, int64_t>;

  // Those that have been met.
  Counts Met() const {
    Counts met;
    for (const auto& [reason, count] : monitor::AllRejections(
             server_->server().runtime(), server_->engine())) {
      if (count != 0) met.emplace(reason, count);
    }
    return met;
  }
  void ExpectMet(const Counts& counts) const {
    Eventually([&] { return Met() == counts; });
    EXPECT_EQ(Met(), counts);
  }
  void Start(TestServer::Options options) {
    server_ = std::make_unique<TestServer>(std::move(options));
  }
  // `call` is refused while another like it waits for its kernel.
  void ExpectRefusedBesideAnother(
      const std::function<grpc::StatusCode()>& call) {
    server_->cache().Hold(true);
    auto first = std::async(std::launch::async, call);
    server_->cache().WaitForGets(1);
    EXPECT_EQ(call(), grpc::RESOURCE_EXHAUSTED);
    server_->cache().Hold(false);
    EXPECT_EQ(first.get(), grpc::OK);
  }

  std::unique_ptr<TestServer> server_;
};

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_REJECTIONS_FIXTURE_H_
