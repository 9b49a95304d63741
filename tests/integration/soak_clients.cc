#include "tests/integration/soak_clients.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "gemmd/v1/matmul.grpc.pb.h"
#include "gemmd/v1/server.grpc.pb.h"
#include "gemmd/v1/tensors.grpc.pb.h"
#include "tests/integration/test_server.h"

namespace gemmd::testing {
namespace {

// An answer later than this is a failure of its own.
constexpr absl::Duration kPatience = absl::Seconds(30);
// Two cores serve everybody, the abusers too.
constexpr absl::Duration kPause = absl::Milliseconds(20);
constexpr int kSide = 64;  // Of the tensors.

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
}

std::string Floats(int count, float value) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return bytes;
}

grpc::Status Expect(bool right, const char* what) {
  return right ? grpc::Status::OK : grpc::Status(grpc::DATA_LOSS, what);
}

grpc::Status Multiply(const std::shared_ptr<grpc::Channel>& channel, int m,
                      int k) {
  const v1::MatmulRequest request = OnesTimesTwos(m, 1, k);
  grpc::ClientContext context;
  SetDeadline(context);
  context.AddMetadata("gemmd-message-bytes",
                      std::to_string(request.ByteSizeLong()));
  v1::MatmulResponse response;
  const grpc::Status status =
      v1::MatmulService::NewStub(channel)->Matmul(&context, request, &response);
  if (!status.ok()) return status;
  return Expect(response.d() == Floats(m, 2.0f * static_cast<float>(k)),
                "a wrong product");
}

grpc::Status SmallProduct(const std::shared_ptr<grpc::Channel>& channel) {
  return Multiply(channel, 4, 500);
}

// 1.5 MiB of operands.
grpc::Status LargeProduct(const std::shared_ptr<grpc::Channel>& channel) {
  return Multiply(channel, 8, 87000);
}

grpc::Status Ask(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = v1::ServerService::NewStub(channel);
  grpc::ClientContext first, second;
  SetDeadline(first);
  SetDeadline(second);
  v1::ServerInfo info;
  grpc::Status status = stub->GetServerInfo(&first, {}, &info);
  if (!status.ok()) return status;
  v1::Statistics statistics;
  status = stub->GetStatistics(&second, {}, &statistics);
  return status.ok() ? Expect(info.devices_size() > 0, "no device") : status;
}

class TensorLife {
 public:
  explicit TensorLife(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(v1::TensorService::NewStub(channel)) {}

  grpc::Status Create() {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::CreateTensorRequest request;
    request.set_rows(kSide);
    request.set_columns(kSide);
    request.set_dtype(v1::DATA_TYPE_F32);
    v1::TensorInfo info;
    const grpc::Status status = stub_->CreateTensor(&context, request, &info);
    handle_ = info.handle();
    return status;
  }
  grpc::Status Upload(const std::string& bytes) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::TensorInfo info;
    const auto writer = stub_->UploadTensor(&context, &info);
    v1::UploadTensorRequest message;
    message.mutable_header()->set_handle(handle_);
    bool open = writer->Write(message);
    message.set_data(bytes);
    if (open) open = writer->Write(message);
    writer->WritesDone();
    return writer->Finish();
  }
  grpc::Status Download(std::string& bytes) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::DownloadTensorRequest request;
    request.set_handle(handle_);
    const auto reader = stub_->DownloadTensor(&context, request);
    v1::DownloadTensorResponse part;
    while (reader->Read(&part)) bytes += part.data();
    return reader->Finish();
  }
  grpc::Status Delete() {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::DeleteTensorRequest request;
    request.set_handle(handle_);
    v1::DeleteTensorResponse response;
    return stub_->DeleteTensor(&context, request, &response);
  }

 private:
  const std::unique_ptr<v1::TensorService::Stub> stub_;
  std::string handle_;
};

grpc::Status KeepATensor(const std::shared_ptr<grpc::Channel>& channel) {
  TensorLife tensor(channel);
  grpc::Status status = tensor.Create();
  if (!status.ok()) return status;
  const std::string bytes = Floats(kSide * kSide, 3.5f);
  status = tensor.Upload(bytes);
  std::string back;
  if (status.ok()) status = tensor.Download(back);
  if (status.ok()) status = Expect(back == bytes, "a wrong tensor");
  const grpc::Status deleted = tensor.Delete();
  return status.ok() ? deleted : status;
}

}  // namespace

std::shared_ptr<grpc::Channel> OwnChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

const std::vector<NamedWork>& AllHonestWork() {
  static const auto& all =
      *new std::vector<NamedWork>{{"small product", SmallProduct},
                                  {"large product", LargeProduct},
                                  {"tensor", KeepATensor},
                                  {"questions", Ask}};
  return all;
}

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[std::min(values.size() - 1,
                         static_cast<size_t>(q * values.size()))];
}

HonestClient::HonestClient(NamedWork work, const std::string& address)
    : work_(work), thread_([this, address] { Run(address); }) {}

HonestClient::~HonestClient() {
  stop_ = true;
  thread_.join();
}

void HonestClient::Run(const std::string& address) {
  const auto channel = OwnChannel(address);
  while (!stop_) {
    const absl::Time start = absl::Now();
    const grpc::Status status = work_.work(channel);
    const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
    {
      std::lock_guard lock(mutex_);
      record_.seconds.push_back(seconds);
      if (!status.ok()) {
        record_.failures.push_back(std::to_string(status.error_code()) + " " +
                                   status.error_message());
      }
    }
    absl::SleepFor(kPause);
  }
}

Record HonestClient::Take() {
  std::lock_guard lock(mutex_);
  return std::exchange(record_, {});
}

bool HonestClient::has_record() {
  std::lock_guard lock(mutex_);
  return !record_.seconds.empty();
}

}  // namespace gemmd::testing
