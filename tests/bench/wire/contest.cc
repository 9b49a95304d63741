#include "tests/bench/wire/contest.h"

#include <grpcpp/grpcpp.h>

#include <functional>
#include <latch>
#include <limits>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "clients/cpp/client.h"
#include "jit/base/status.h"
#include "tests/bench/wire/bare_server.h"
#include "tests/bench/wire/messages.h"

namespace gemmd::wire {
namespace {

constexpr absl::Duration kConnectTimeout = absl::Seconds(10);

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(
    const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A connection of its own.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  auto channel = grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments);
  if (channel->WaitForConnected(
          absl::ToChronoTime(absl::Now() + kConnectTimeout))) {
    return channel;
  }
  return absl::UnavailableError(absl::StrCat("nobody answers at ", address));
}

// One client and all that it moves.
class Client {
 public:
  static absl::StatusOr<std::unique_ptr<Client>> Create(
      Way way, const Load& load, const ContestOptions& options) {
    std::unique_ptr<Client> client(new Client(way, load));
    ASSIGN_OR_RETURN(client->bare_, Connect(options.bare));
    ASSIGN_OR_RETURN(client->daemon_, Connect(options.daemon));
    client::Options own;
    own.striping.connections = 1;
    own.timeout = kCallTimeout;
    ASSIGN_OR_RETURN(client->client_,
                     client::Client::Connect(options.daemon, own));
    if (way == Way::kUpload || way == Way::kDownload) {
      RETURN_IF_ERROR(client->MakeTensor(load));
    } else {
      client->MakeProduct(load);
    }
    client->messages_ =
        MessagesOf(way, load, client->tensor_, client->product_);
    return client;
  }

  ~Client() {
    if (!tensor_.empty()) client_->DeleteTensor(tensor_).IgnoreError();
  }

  absl::Status MoveBare() { return ExchangeBare(bare_, messages_); }
  absl::Status MoveByDaemon() { return Exchange(daemon_, messages_); }
  absl::Status MoveByClient() {
    switch (way_) {
      case Way::kUpload:
        return client_->UploadTensor(tensor_, {}, sent_);
      case Way::kDownload:
        return client_->DownloadTensor(tensor_, {}, absl::MakeSpan(returned_));
      default:
        return client_->Matmul(product_).status();
    }
  }

 private:
  Client(Way way, const Load& load)
      : way_(way),
        sent_(load.sent_bytes(way), kFill),
        returned_(load.returned_bytes(way), '\0') {}

  absl::Status MakeTensor(const Load& load) {
    v1::CreateTensorRequest request;
    request.set_dtype(v1::DATA_TYPE_U8);
    request.set_rows(load.tensor_bytes / kLineBytes);
    request.set_columns(kLineBytes);
    request.set_device(load.device);
    request.set_label("wire");
    ASSIGN_OR_RETURN(const v1::TensorInfo info, client_->CreateTensor(request));
    tensor_ = info.handle();
    return absl::OkStatus();
  }

  void MakeProduct(const Load& load) {
    const absl::Span<const char> sent = sent_;
    product_.problem = load.problem;
    product_.device = load.device;
    product_.a = client::Operand::Bytes(sent.first(load.a_bytes));
    product_.b = client::Operand::Bytes(sent.subspan(load.a_bytes));
    product_.d = client::Destination::Bytes(absl::MakeSpan(returned_));
    product_.stream_bytes =
        way_ == Way::kStream ? 0 : std::numeric_limits<uint64_t>::max();
  }

  const Way way_;
  const std::string sent_;
  std::string returned_;
  Messages messages_;  // Outlive the channels, by which they go as they lie.
  std::shared_ptr<grpc::Channel> bare_;
  std::shared_ptr<grpc::Channel> daemon_;
  std::unique_ptr<client::Client> client_;
  std::string tensor_;
  client::Product product_;
};

using Move = absl::Status (Client::*)();
using Clients = std::vector<std::unique_ptr<Client>>;

// Calls a second of all clients: the sum of what each has while it is at work.
absl::StatusOr<double> CallsPerSecond(const Clients& clients, Move move,
                                      absl::Duration duration) {
  std::vector<absl::StatusOr<double>> rates(clients.size());
  std::latch start(std::ssize(clients));
  const auto run = [&](size_t i) -> absl::StatusOr<double> {
    start.arrive_and_wait();
    const absl::Time begin = absl::Now();
    absl::Time now = begin;
    int64_t calls = 0;
    for (; now - begin < duration || calls == 0; now = absl::Now()) {
      RETURN_IF_ERROR(((*clients[i]).*move)());
      ++calls;
    }
    return static_cast<double>(calls) / absl::ToDoubleSeconds(now - begin);
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < clients.size(); ++i) {
    threads.emplace_back([&, i] { rates[i] = run(i); });
  }
  for (std::thread& thread : threads) thread.join();
  double sum = 0;
  for (const absl::StatusOr<double>& rate : rates) {
    RETURN_IF_ERROR(rate.status());
    sum += *rate;
  }
  return sum;
}

}  // namespace

absl::StatusOr<Row> RunContest(Way way, int clients, const Load& load,
                               const ContestOptions& options) {
  Clients all(clients);
  for (auto& client : all) {
    ASSIGN_OR_RETURN(client, Client::Create(way, load, options));
  }
  Row row = {.way = way, .clients = clients};
  const std::pair<Move, std::vector<double>*> contenders[] = {
      {&Client::MoveBare, &row.rates.bare},
      {&Client::MoveByDaemon, &row.rates.daemon},
      {&Client::MoveByClient, &row.rates.client}};
  const double gigabytes =
      static_cast<double>(load.sent_bytes(way) + load.returned_bytes(way)) /
      1e9;
  // The first round is not counted: windows open, kernels are compiled.
  for (int round = 0; round <= options.rounds; ++round) {
    for (const auto& [move, rates] : contenders) {
      ASSIGN_OR_RETURN(
          const double rate,
          CallsPerSecond(all, move,
                         round == 0 ? absl::ZeroDuration() : options.duration));
      if (round > 0) rates->push_back(rate * gigabytes);
    }
  }
  return row;
}

}  // namespace gemmd::wire
