// Kernels by name: prepared, listed, described, evicted and tuned by clients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using ::testing::HasSubstr;
using testing::OnesTimesTwos;
using testing::TestServer;

TEST(ServerTest, PreparesListsDescribesAndEvictsKernels) {
  TestServer server({.limits = {.admin_calls = true}});
  auto stub = v1::KernelService::NewStub(server.channel());
  v1::PrepareKernelsRequest prepare;
  *prepare.add_problems() = OnesTimesTwos(64, 64, 64).header().problem();
  *prepare.add_problems() = OnesTimesTwos(0, 64, 64).header().problem();
  v1::PrepareKernelsResponse prepared;
  {
    grpc::ClientContext context;
    const grpc::Status status =
        stub->PrepareKernels(&context, prepare, &prepared);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  ASSERT_EQ(prepared.kernels_size(), 2);
  EXPECT_EQ(prepared.kernels(0).cubin_source(), v1::CUBIN_SOURCE_COMPILED);
  EXPECT_EQ(prepared.kernels(1).kernel(), "");
  const std::string key = prepared.kernels(0).cubin_key();

  v1::ListKernelsResponse list;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub->ListKernels(&context, {}, &list).ok());
  }
  ASSERT_EQ(list.kernels_size(), 1);
  EXPECT_EQ(list.kernels(0).key(), key);
  ASSERT_EQ(list.kernels(0).loaded_on_size(), 1);
  EXPECT_EQ(list.kernels(0).loaded_on(0), "host");

  v1::DescribeKernelRequest describe;
  describe.set_key(key);
  v1::KernelDescription description;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub->DescribeKernel(&context, describe, &description).ok());
  }
  EXPECT_THAT(description.source(), HasSubstr("gemmd_kernel"));

  v1::EvictKernelRequest evict;
  evict.set_key(key);
  v1::EvictKernelResponse evicted;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub->EvictKernel(&context, evict, &evicted).ok());
  }
  for (const std::string& gone : {key, std::string(64, '0')}) {
    evict.set_key(gone);
    grpc::ClientContext context;
    EXPECT_EQ(stub->EvictKernel(&context, evict, &evicted).error_code(),
              grpc::NOT_FOUND);
  }
  evict.set_key("../../etc/passwd");
  grpc::ClientContext context;
  EXPECT_EQ(stub->EvictKernel(&context, evict, &evicted).error_code(),
            grpc::INVALID_ARGUMENT);
  EXPECT_TRUE(server.engine().kernels(0).LoadedKeys().empty());
}

TEST(ServerTest, ListsKernelsAPageAtATime) {
  TestServer server;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) {
    ASSERT_TRUE(server.cache().Get({.name = name, .source = ""}, {}).ok());
  }
  auto stub = v1::KernelService::NewStub(server.channel());
  v1::ListKernelsRequest request;
  v1::ListKernelsResponse page;
  const auto list = [&](int size, const std::string& token) {
    request.set_page_size(size);
    request.set_page_token(token);
    grpc::ClientContext context;
    return stub->ListKernels(&context, request, &page);
  };
  std::string names;
  for (const int size : {3, 3, 1}) {
    ASSERT_TRUE(list(3, page.next_page_token()).ok());
    EXPECT_EQ(page.kernels_size(), size);
    EXPECT_EQ(page.next_page_token().empty(), size == 1);
    for (const auto& kernel : page.kernels()) names += kernel.kernel();
  }
  EXPECT_EQ(names, "abcdefg");
  for (const int size : {0, 7, 1000}) {
    ASSERT_TRUE(list(size, "").ok());
    EXPECT_EQ(page.kernels_size(), 7);
    EXPECT_EQ(page.next_page_token(), "");
  }
  for (const auto& [size, token, says] :
       {std::tuple{-1, "", "page_size is -1; allowed: 0 to 1000"},
        {1001, "", "page_size is 1001"},
        {3, "g", "page_token is malformed"}}) {
    const grpc::Status status = list(size, token);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr(says));
  }
}

TEST(ServerTest, OnlyAdministeredDaemonsLetClientsEvict) {
  TestServer server;
  auto stub = v1::KernelService::NewStub(server.channel());
  grpc::ClientContext context;
  v1::EvictKernelRequest request;
  request.set_key(std::string(64, 'a'));
  v1::EvictKernelResponse response;
  const grpc::Status status = stub->EvictKernel(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), HasSubstr("--admin-calls"));
}

v1::Problem Bf16(int64_t m, int64_t n, int64_t k) {
  v1::Problem problem;
  problem.set_m(m);
  problem.set_n(n);
  problem.set_k(k);
  problem.set_a_type(v1::DATA_TYPE_BF16);
  problem.set_b_type(v1::DATA_TYPE_BF16);
  return problem;
}

// Status of a call to tune one product, which may be sent with changes.
grpc::Status Tune(TestServer& server,
                  const std::function<void(v1::TuneKernelsRequest&)>& change) {
  auto stub = v1::KernelService::NewStub(server.channel());
  v1::TuneKernelsRequest request;
  *request.add_problems() = Bf16(64, 64, 64);
  change(request);
  grpc::ClientContext context;
  const auto reader = stub->TuneKernels(&context, request);
  v1::TuneKernelsResponse response;
  while (reader->Read(&response)) {
  }
  return reader->Finish();
}

TEST(ServerTest, OnlyAdministeredDaemonsLetClientsTune) {
  TestServer server;
  const grpc::Status status = Tune(server, [](auto&) {});
  EXPECT_EQ(status.error_code(), grpc::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), HasSubstr("--admin-calls"));
}

TEST(ServerTest, WhatCannotBeTunedIsNamed) {
  TestServer server({.limits = {.admin_calls = true}});
  EXPECT_EQ(Tune(server, [](auto&) {}).error_code(), grpc::UNIMPLEMENTED);
  grpc::Status status =
      Tune(server, [](auto& request) { request.set_candidates(65); });
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("candidates is 65"));
  status = Tune(server,
                [](auto& request) { request.mutable_problems(0)->set_m(-1); });
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("problems[0]"));
  status = Tune(server, [](auto& request) { request.set_device("cuda:9"); });
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
}

TEST(ServerTest, TellsOfEachProblemAndDeviceThatItTunes) {
  TestServer server({.limits = {.admin_calls = true},
                     .devices = 2,
                     .time = [](const jit::Plan& plan) {
                       return plan.config.consumers == 1 ? 2.0 : 3.0;
                     }});
  auto stub = v1::KernelService::NewStub(server.channel());
  v1::TuneKernelsRequest request;
  request.set_candidates(40);
  for (const int m : {256, 512}) *request.add_problems() = Bf16(m, 1024, 512);
  grpc::ClientContext context;
  const auto reader = stub->TuneKernels(&context, request);
  std::vector<v1::TuneKernelsResponse> tuned;
  for (v1::TuneKernelsResponse response; reader->Read(&response);) {
    tuned.push_back(response);
  }
  const grpc::Status status = reader->Finish();
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(tuned.size(), 4);
  for (size_t i = 0; i < tuned.size(); ++i) {
    EXPECT_EQ(tuned[i].problem(), i / 2);
    EXPECT_EQ(tuned[i].device(), i % 2 == 0 ? "host" : "host:1");
    EXPECT_EQ(tuned[i].us(), 2);
    EXPECT_EQ(tuned[i].measured(), 40);
    EXPECT_EQ(tuned[i].failed(), 0);
    EXPECT_EQ(tuned[i].splits(), tuned[i].splits_before());
    EXPECT_GT(tuned[i].predicted_us(), 0);
  }
}

TEST(ServerTest, BadProblemsToPrepareAreNamed) {
  TestServer server;
  auto stub = v1::KernelService::NewStub(server.channel());
  v1::PrepareKernelsRequest prepare;
  *prepare.add_problems() = OnesTimesTwos(6, 6, 6).header().problem();
  *prepare.add_problems() = OnesTimesTwos(6, 6, 6).header().problem();
  prepare.mutable_problems(1)->set_n(-1);
  v1::PrepareKernelsResponse prepared;
  grpc::ClientContext context;
  const grpc::Status status =
      stub->PrepareKernels(&context, prepare, &prepared);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              HasSubstr("problems[1]: problem.n is -1"));
}

}  // namespace
}  // namespace gemmd
