// The server as such: what it tells of itself, crowds, who waits and for how
// long, draining.
#include "service/rpc/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "inference/service.grpc.pb.h"
#include "tests/integration/test_server.h"

namespace gemmd {
namespace {

using ::testing::HasSubstr;
using testing::OnesTimesTwos;
using testing::TestServer;

constexpr char kNotServing[] = "\x08\x02";  // status = NOT_SERVING.

grpc::Status Multiply(TestServer& server, const v1::MatmulRequest& request,
                      absl::Duration timeout = absl::Seconds(30)) {
  auto stub = v1::MatmulService::NewStub(server.channel());
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  v1::MatmulResponse response;
  return stub->Matmul(&context, request, &response);
}

TEST(ServerTest, Reflects) {
  TestServer server;
  using grpc::reflection::v1alpha::ServerReflectionRequest;
  using grpc::reflection::v1alpha::ServerReflectionResponse;
  auto stub =
      grpc::reflection::v1alpha::ServerReflection::NewStub(server.channel());
  grpc::ClientContext context;
  auto stream = stub->ServerReflectionInfo(&context);
  ServerReflectionRequest request;
  ServerReflectionResponse response;
  request.set_list_services("");
  ASSERT_TRUE(stream->Write(request) && stream->Read(&response));
  std::vector<std::string> names;
  for (const auto& service : response.list_services_response().service()) {
    names.push_back(service.name());
  }
  EXPECT_THAT(names,
              ::testing::IsSupersetOf(
                  {"gemmd.v1.MatmulService", "gemmd.v1.TensorService",
                   "gemmd.v1.KernelService", "gemmd.v1.ServerService",
                   "gemmd.v1.ModelService", "inference.GRPCInferenceService",
                   "grpc.health.v1.Health"}));
  // Every service is described, with all that its file imports.
  for (const std::string& name : names) {
    if (name == "grpc.reflection.v1.ServerReflection") continue;
    request.set_file_containing_symbol(name);
    ASSERT_TRUE(stream->Write(request) && stream->Read(&response));
    EXPECT_TRUE(response.has_file_descriptor_response()) << name;
  }
  request.set_file_by_filename("gemmd/v1/matmul.proto");
  ASSERT_TRUE(stream->Write(request) && stream->Read(&response));
  EXPECT_EQ(response.file_descriptor_response().file_descriptor_proto_size(),
            3);
  request.set_file_containing_symbol("nobody");
  ASSERT_TRUE(stream->Write(request) && stream->Read(&response));
  EXPECT_EQ(response.error_response().error_code(), grpc::NOT_FOUND);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(ServerTest, ServesACrowdOnManyConnections) {
  TestServer server;
  std::atomic<int> right = 0;
  std::vector<std::thread> clients;
  for (int client = 0; client < 8; ++client) {
    clients.emplace_back([&, client] {
      auto stub = v1::MatmulService::NewStub(
          client % 2 == 0 ? server.channel() : server.unix_channel());
      for (int i = 0; i < 25; ++i) {
        const int64_t k = 1 + client * 25 + i;  // Every shape is new.
        grpc::ClientContext context;
        v1::MatmulResponse response;
        const grpc::Status status =
            stub->Matmul(&context, OnesTimesTwos(9, 17, k), &response);
        ASSERT_TRUE(status.ok()) << status.error_message();
        float last;
        std::memcpy(&last, &response.d()[response.d().size() - 4], 4);
        if (last == 2 * k) ++right;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(right, 8 * 25);

  auto stub = v1::ServerService::NewStub(server.channel());
  grpc::ClientContext context;
  v1::Statistics statistics;
  ASSERT_TRUE(stub->GetStatistics(&context, {}, &statistics).ok());
  EXPECT_EQ(statistics.requests(), 200);
  EXPECT_EQ(statistics.failed(), 0);
  EXPECT_EQ(statistics.queued(), 0);
  EXPECT_EQ(statistics.sent_bytes(), 200 * 9 * 17 * 4);
}

TEST(ServerTest, SaysWhatItIs) {
  TestServer server;
  auto stub = v1::ServerService::NewStub(server.channel());
  grpc::ClientContext context;
  v1::ServerInfo info;
  ASSERT_TRUE(stub->GetServerInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.version(), "test");
  ASSERT_EQ(info.devices_size(), 1);
  EXPECT_EQ(info.devices(0).name(), "host");
  EXPECT_EQ(info.devices(0).free_bytes(), info.devices(0).memory_bytes());
  EXPECT_EQ(info.limits().max_message_bytes(), 1 << 30);
  EXPECT_EQ(info.limits().max_dimension(), 2147483392);
  EXPECT_FALSE(info.can_compile());
}

TEST(ServerTest, ADeadlineEndsARequestThatWaits) {
  TestServer server;
  server.cache().Hold(true);
  EXPECT_EQ(Multiply(server, OnesTimesTwos(2, 2, 2), absl::Milliseconds(100))
                .error_code(),
            grpc::DEADLINE_EXCEEDED);
  server.cache().Hold(false);
  EXPECT_TRUE(Multiply(server, OnesTimesTwos(2, 2, 2)).ok());
}

TEST(ServerTest, ACancelEndsARequestThatWaits) {
  TestServer server;
  server.cache().Hold(true);
  auto stub = v1::MatmulService::NewStub(server.channel());
  grpc::ClientContext context;
  v1::MatmulResponse response;
  auto call = std::async(std::launch::async, [&] {
    return stub->Matmul(&context, OnesTimesTwos(2, 2, 2), &response);
  });
  server.cache().WaitForGets(1);
  context.TryCancel();
  EXPECT_EQ(call.get().error_code(), grpc::CANCELLED);
  server.cache().Hold(false);
  EXPECT_TRUE(Multiply(server, OnesTimesTwos(2, 2, 2)).ok());
}

// A daemon whose compiler is busy answers everything else.
TEST(ServerTest, ControlCallsDoNotWaitForCompiles) {
  TestServer server({.preparer = {.compile_threads = 2}});
  server.cache().Hold(true);
  std::vector<std::future<grpc::Status>> compiling;
  for (int i = 0; i < 8; ++i) {
    compiling.push_back(std::async(std::launch::async, [&server, i] {
      auto stub = v1::KernelService::NewStub(server.channel());
      v1::PrepareKernelsRequest request;
      v1::Problem& problem = *request.add_problems();
      problem = OnesTimesTwos(64, 64, 64).header().problem();
      problem.set_a_order(i % 2 == 0 ? v1::ORDER_ROW_MAJOR
                                     : v1::ORDER_COLUMN_MAJOR);
      grpc::ClientContext context;
      v1::PrepareKernelsResponse response;
      return stub->PrepareKernels(&context, request, &response);
    }));
  }
  server.cache().WaitForGets(1);
  const std::pair<const char*, grpc::StatusCode> calls[] = {
      {"/gemmd.v1.ServerService/GetServerInfo", grpc::OK},
      {"/gemmd.v1.ServerService/GetStatistics", grpc::OK},
      {"/gemmd.v1.KernelService/ListKernels", grpc::OK},
      {"/gemmd.v1.TensorService/ListTensors", grpc::OK},
      {"/gemmd.v1.TensorService/DeleteTensor", grpc::NOT_FOUND},
      {"/grpc.health.v1.Health/Check", grpc::OK},
  };
  for (const auto& [method, code] : calls) {
    auto call = std::async(std::launch::async, [&server, method = method] {
      return server.CallRaw(method, "");
    });
    EXPECT_EQ(call.wait_for(std::chrono::seconds(30)),
              std::future_status::ready)
        << method << " waits for compiles";
    if (::testing::Test::HasFailure()) server.cache().Hold(false);
    EXPECT_EQ(call.get().error_code(), code) << method;
  }
  EXPECT_TRUE(Multiply(server, OnesTimesTwos(0, 2, 2)).ok());
  for (auto& one : compiling) {
    EXPECT_EQ(one.wait_for(std::chrono::seconds(0)),
              std::future_status::timeout);
  }
  server.cache().Hold(false);
  for (auto& one : compiling) EXPECT_TRUE(one.get().ok());
}

TEST(ServerTest, AFullQueueSaysSo) {
  TestServer server({.preparer = {.max_waiting = 1}});
  server.cache().Hold(true);
  auto first = std::async(std::launch::async, [&] {
    return Multiply(server, OnesTimesTwos(2, 2, 2));
  });
  server.cache().WaitForGets(1);
  const grpc::Status status = Multiply(server, OnesTimesTwos(2, 2, 2));
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("the limit is 1"));
  server.cache().Hold(false);
  EXPECT_TRUE(first.get().ok());
}

TEST(ServerTest, WhatFindsNoRoomInTimeIsNotRead) {
  TestServer::Options options;
  options.limits.max_message_bytes = 100 << 10;
  options.limits.max_in_flight_bytes = 100 << 10;
  options.limits.max_wait = absl::Milliseconds(300);
  TestServer server(options);
  server.cache().Hold(true);
  auto first = std::async(std::launch::async, [&] {
    return Multiply(server, OnesTimesTwos(200, 1, 200));
  });
  server.cache().WaitForGets(1);
  grpc::ClientContext context;
  context.AddMetadata("gemmd-message-bytes", "90000");
  v1::MatmulResponse response;
  const grpc::Status status =
      v1::MatmulService::NewStub(server.channel())
          ->Matmul(&context, OnesTimesTwos(200, 1, 200), &response);
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("the limit is 102400"));
  server.cache().Hold(false);
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(Multiply(server, OnesTimesTwos(200, 1, 200)).ok());
}

TEST(ServerTest, DrainingFinishesWhatRunsAndRefusesTheRest) {
  TestServer server({.drain_grace = absl::Milliseconds(500)});
  server.cache().Hold(true);
  auto running = std::async(std::launch::async, [&] {
    return Multiply(server, OnesTimesTwos(2, 2, 2));
  });
  server.cache().WaitForGets(1);
  std::thread drain([&] { server.server().Drain(); });
  // In the grace period it says NOT_SERVING, and serves.
  std::string health;
  do {
    ASSERT_TRUE(
        server.CallRaw("/grpc.health.v1.Health/Check", "", &health).ok());
  } while (health != kNotServing);
  EXPECT_TRUE(Multiply(server, OnesTimesTwos(0, 2, 2)).ok());
  absl::SleepFor(absl::Milliseconds(700));
  EXPECT_EQ(Multiply(server, OnesTimesTwos(0, 2, 2)).error_code(),
            grpc::UNAVAILABLE);
  server.cache().Hold(false);
  EXPECT_TRUE(running.get().ok());
  drain.join();
}

TEST(ServerTest, DrainingEndsWithinItsTimeout) {
  TestServer server({.drain_timeout = absl::Milliseconds(200)});
  server.cache().Hold(true);
  auto stuck = std::async(std::launch::async, [&] {
    return Multiply(server, OnesTimesTwos(2, 2, 2));
  });
  server.cache().WaitForGets(1);
  std::thread drain([&] { server.server().Drain(); });
  EXPECT_FALSE(stuck.get().ok());  // Cancelled, though the compile hangs.
  server.cache().Hold(false);
  drain.join();
}

TEST(ServerTest, DrainingWaitsForNoRequestThatMayCome) {
  TestServer server({.drain_timeout = absl::Seconds(5)});
  const auto inference =
      inference::GRPCInferenceService::NewStub(server.channel());
  const auto reflection =
      grpc::reflection::v1alpha::ServerReflection::NewStub(server.channel());
  grpc::ClientContext contexts[2];
  const auto infer = inference->ModelStreamInfer(&contexts[0]);
  inference::ModelStreamInferResponse answer;
  ASSERT_TRUE(infer->Write({}) && infer->Read(&answer));
  const auto reflect = reflection->ServerReflectionInfo(&contexts[1]);
  grpc::reflection::v1alpha::ServerReflectionResponse description;
  ASSERT_TRUE(reflect->Write({}) && reflect->Read(&description));
  const std::jthread drain([&] { server.server().Drain(); });
  const auto expect_drained = [](const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
    EXPECT_EQ(status.error_message(), "the daemon is shutting down");
  };
  expect_drained(infer->Finish());
  expect_drained(reflect->Finish());
}

TEST(ServerTest, RefusesToListenWhereItMustNotOrCannot) {
  TestServer server;
  rpc::Server::Options options;
  options.listen = {"0.0.0.0:0"};
  auto started = rpc::Server::Start(options, server.engine());
  EXPECT_EQ(started.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(started.status().message(),
              HasSubstr("--allow-plaintext-nonloopback"));
  options.listen = {server.address()};  // Taken.
  started = rpc::Server::Start(options, server.engine());
  EXPECT_EQ(started.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(started.status().message(), HasSubstr(server.address()));
}

}  // namespace
}  // namespace gemmd
