#include "tests/integration/driver_crowd.h"

#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "absl/algorithm/container.h"
#include "clients/cpp/client.h"
#include "jit/base/status.h"

namespace gemmd::testing {
namespace {

using client::Client;
using client::Destination;
using client::Operand;
using client::Product;

constexpr int kSide = 64;  // Of most products: there are few kernels.
constexpr int kMostLines = 300;
constexpr int kLongLine = 30'000;  // Of what takes several buffers to move.

class Member {
 public:
  // `shares`: also by memory that it shares with the daemon.
  Member(Client& client, const std::string& device, bool shares, int seed)
      : client_(client), device_(device), shares_(shares), random_(seed) {}

  absl::Status Do(int round) {
    switch (round % (shares_ ? 7 : 6)) {
      case 0:
        return RoundTrip();
      case 1:
        return Inline();
      case 2:
        return Resident();
      case 3:
        return InSequence();
      case 4:
        return Grouped();
      case 5:
        return GivenUp();
      default:
        return Shared();
    }
  }

 private:
  std::string Bytes(int64_t count) {
    std::string bytes(count, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_());
    return bytes;
  }

  absl::StatusOr<std::string> Create(int64_t rows, int64_t columns,
                                     v1::Order order) {
    v1::CreateTensorRequest request;
    request.set_dtype(v1::DATA_TYPE_BF16);
    request.set_rows(rows);
    request.set_columns(columns);
    request.set_order(order);
    request.set_device(device_);
    ASSIGN_OR_RETURN(const v1::TensorInfo info, client_.CreateTensor(request));
    return info.handle();
  }

  // Of any size and order; twice, so that the second replaces the first.
  absl::Status RoundTrip() {
    const int64_t rows = 1 + random_() % kMostLines;
    const int64_t columns =
        1 + random_() % (random_() % 8 == 0 ? kLongLine : kMostLines);
    v1::Layout layout;
    layout.set_order(random_() % 2 == 0 ? v1::ORDER_ROW_MAJOR
                                        : v1::ORDER_COLUMN_MAJOR);
    ASSIGN_OR_RETURN(const std::string handle,
                     Create(rows, columns, layout.order()));
    absl::Status status;
    for (int i = 0; i < 2; ++i) {
      const std::string sent = Bytes(rows * columns * 2);
      std::string back(sent.size(), '\0');
      status.Update(client_.UploadTensor(handle, layout, sent));
      status.Update(
          client_.DownloadTensor(handle, layout, absl::MakeSpan(back)));
      if (status.ok() && back != sent) {
        status = absl::DataLossError("a tensor is not what was uploaded");
      }
    }
    status.Update(client_.DeleteTensor(handle));
    return status;
  }

  Product Of(int m) const {
    Product product;
    product.problem.set_m(m);
    product.problem.set_n(kSide);
    product.problem.set_k(kSide);
    product.problem.set_a_type(v1::DATA_TYPE_BF16);
    product.problem.set_b_type(v1::DATA_TYPE_BF16);
    product.problem.set_d_type(v1::DATA_TYPE_F32);
    product.a = Operand::Bytes(absl::MakeConstSpan(zeros_).first(m * kLine));
    product.b = Operand::Bytes(zeros_);
    product.device = device_;
    return product;
  }

  // In one message, or in chunks.
  absl::Status Inline() {
    Product product = Of(kSide);
    if (random_() % 2 == 0) product.stream_bytes = 0;
    return client_.Matmul(product).status();
  }

  // Its operands go as soon as it is done.
  absl::Status Resident() {
    ASSIGN_OR_RETURN(const std::string a,
                     Create(kSide, kSide, v1::ORDER_ROW_MAJOR));
    Product product = Of(kSide);
    product.a = Operand::Tensor(a);
    product.b = Operand::Tensor(a);
    absl::Status status = client_.Matmul(product).status();
    status.Update(client_.DeleteTensor(a));
    return status;
  }

  // By temporaries, each of which is let go of by the next step.
  absl::Status InSequence() {
    client::Sequence sequence;
    sequence.device = device_;
    for (const char* name : {"x", "y", "z", ""}) {
      Product step = Of(kSide);
      step.device = "";
      step.problem.set_d_type(v1::DATA_TYPE_BF16);
      if (!sequence.steps.empty()) {
        step.a = Operand::Named(sequence.steps.back().d.name);
      }
      if (*name != '\0') step.d = Destination::Named(name);
      sequence.steps.push_back(std::move(step));
    }
    return client_.Run(sequence).status();
  }

  absl::Status Grouped() {
    return client_.MatmulGrouped({Of(kSide), Of(1), Of(kSide / 2)}).status();
  }

  // By its deadline, wherever it is then.
  absl::Status GivenUp() {
    Product product = Of(kSide);
    product.timeout = absl::Microseconds(200 + random_() % 5000);
    const absl::Status status = client_.Matmul(product).status();
    return absl::IsDeadlineExceeded(status) ? absl::OkStatus() : status;
  }

  // From one place to another, while a product reads the first.
  absl::Status Shared() {
    const int64_t bytes = kSide * kLine;
    ASSIGN_OR_RETURN(const auto memory, client_.Share(2 * bytes));
    ASSIGN_OR_RETURN(const std::string handle,
                     Create(kSide, kSide, v1::ORDER_ROW_MAJOR));
    const std::string sent = Bytes(bytes);
    absl::c_copy(sent, memory->bytes().begin());
    absl::Status status = client_.UploadTensor(handle, {}, *memory, 0);
    Product product = Of(kSide);
    product.a = Operand::Shared(*memory, 0);
    status.Update(client_.Matmul(product).status());
    status.Update(client_.DownloadTensor(handle, {}, *memory, bytes));
    if (status.ok() && !absl::c_equal(memory->bytes().subspan(bytes), sent)) {
      status = absl::DataLossError("shared memory is not what it was");
    }
    status.Update(client_.DeleteTensor(handle));
    return status;
  }

  static constexpr int kLine = kSide * 2;  // Bytes.

  Client& client_;
  const std::string device_;
  const bool shares_;
  std::minstd_rand random_;
  const std::string zeros_ = std::string(kSide * kLine, '\0');
};

}  // namespace

std::vector<absl::Status> RunCrowd(const std::string& address, int clients,
                                   int rounds, const std::string& device) {
  std::mutex mutex;
  std::vector<absl::Status> failures;
  std::vector<std::jthread> threads;
  for (int i = 0; i < clients; ++i) {
    threads.emplace_back([&, i] {
      const auto client =
          Client::Connect(address, {.timeout = absl::Minutes(1)});
      Member member(**client, device, address.starts_with("unix:"), i);
      for (int round = 0; round < rounds; ++round) {
        const absl::Status status = member.Do(i + round);
        std::lock_guard lock(mutex);
        if (!status.ok()) failures.push_back(status);
      }
    });
  }
  threads.clear();
  return failures;
}

}  // namespace gemmd::testing
