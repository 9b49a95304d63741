// Answers in messages, of daemons that would never end them: no time limit is
// set, and each call ends.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/cpp/client.h"

namespace gemmd::client {
namespace {

class EndlessTensors final : public v1::TensorService::Service {
 public:
  explicit EndlessTensors(v1::DownloadTensorResponse again)
      : again_(std::move(again)) {}
  grpc::Status DownloadTensor(
      grpc::ServerContext*, const v1::DownloadTensorRequest*,
      grpc::ServerWriter<v1::DownloadTensorResponse>* writer) override {
    while (writer->Write(again_)) {
    }
    return grpc::Status::OK;
  }

 private:
  const v1::DownloadTensorResponse again_;
};

class EndlessProducts final : public v1::MatmulService::Service {
 public:
  explicit EndlessProducts(v1::MatmulStreamResponse again)
      : again_(std::move(again)) {}
  grpc::Status MatmulStream(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::MatmulStreamResponse,
                               v1::MatmulStreamRequest>* stream) override {
    for (v1::MatmulStreamRequest message; stream->Read(&message);) {
    }
    while (stream->Write(again_)) {
    }
    return grpc::Status::OK;
  }

 private:
  const v1::MatmulStreamResponse again_;
};

// How `call` to such a service ends.
absl::Status EndOf(grpc::Service& service,
                   const std::function<absl::Status(Client&)>& call) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto client = Client::Connect(absl::StrCat("127.0.0.1:", port));
  if (!client.ok()) return client.status();
  return call(**client);
}

absl::Status Download(const v1::DownloadTensorResponse& again) {
  EndlessTensors tensors(again);
  return EndOf(tensors, [](Client& client) {
    std::string bytes(100, '\0');
    return client.DownloadTensor("handle", {},
                                 absl::MakeSpan(bytes.data(), bytes.size()));
  });
}

absl::Status Multiply(const v1::MatmulStreamResponse& again) {
  EndlessProducts products(again);
  return EndOf(products, [](Client& client) {
    const std::string operand(64, 'x');
    Product product;
    product.problem.set_m(4);
    product.problem.set_n(4);
    product.problem.set_k(4);
    product.a = Operand::Bytes(operand);
    product.b = Operand::Bytes(operand);
    product.stream_bytes = 0;
    return client.Matmul(product).status();
  });
}

void ExpectInternal(const absl::Status& status, absl::string_view text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
}

TEST(EndlessStreamsTest, MoreBytesThanATensorHas) {
  v1::DownloadTensorResponse again;
  again.set_data("0123456789");
  ExpectInternal(Download(again), "more bytes than the tensor has");
}

TEST(EndlessStreamsTest, MessagesWithoutBytesOfATensor) {
  v1::DownloadTensorResponse again;
  ExpectInternal(Download(again), "without bytes");
  again.set_version(7);
  ExpectInternal(Download(again), "without bytes");
}

TEST(EndlessStreamsTest, MoreBytesThanAProductHas) {
  v1::MatmulStreamResponse again;
  again.set_data("0123456789");
  ExpectInternal(Multiply(again), "more than the 16 bytes of D");
}

TEST(EndlessStreamsTest, MessagesWithoutBytesOfAProduct) {
  v1::MatmulStreamResponse again;
  ExpectInternal(Multiply(again), "second message without bytes");
  again.mutable_execution()->set_device("cuda:0");
  ExpectInternal(Multiply(again), "second message without bytes");
  again.set_auxiliary("that nobody asked for");
  ExpectInternal(Multiply(again), "second message without bytes");
}

}  // namespace
}  // namespace gemmd::client
