// A client of services that answer what a test tells them.
#ifndef GEMMD_TESTS_CLIENTS_CPP_CLIENT_FIXTURE_H_
#define GEMMD_TESTS_CLIENTS_CPP_CLIENT_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "clients/cpp/client.h"
#include "tests/clients/cpp/fake_services.h"

namespace gemmd::client {

class ClientTest : public testing::Test {
 protected:
  ClientTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.SetMaxReceiveMessageSize(-1);
    builder.RegisterService(&matmul_);
    builder.RegisterService(&tensors_);
    builder.RegisterService(&info_);
    grpc::EnableDefaultHealthCheckService(true);
    server_ = builder.BuildAndStart();
    Options options;
    options.timeout = absl::Seconds(30);
    auto client = Client::Connect("127.0.0.1:" + std::to_string(port), options);
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  Product SmallProduct() {
    Product product;
    product.problem.set_m(2);
    product.problem.set_n(3);
    product.problem.set_k(4);
    product.a = Operand::Bytes(a_);
    product.b = Operand::Bytes(b_, 5);
    return product;
  }

  const std::string a_ = std::string(16, 'a');
  const std::string b_ = std::string(36, 'b');
  FakeMatmul matmul_;
  FakeTensors tensors_;
  FakeServer info_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Client> client_;
};

}  // namespace gemmd::client

#endif  // GEMMD_TESTS_CLIENTS_CPP_CLIENT_FIXTURE_H_
