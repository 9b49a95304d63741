#include "clients/cpp/client.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "clients/cpp/page_token.h"
#include "clients/cpp/status.h"
#include "clients/cpp/unary.h"
#include "gemmd/v1/regions.grpc.pb.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"

namespace gemmd::client {
namespace {

// Calls that the daemon had no room for are made again when it says so
// (grpc-retry-pushback-ms, by gRPC's own retries), four times at most and
// within their time limit. The back-off counts where it said nothing, which it
// does not.
constexpr char kRetries[] = R"({"methodConfig": [{
  "name": [{"service": "gemmd.v1.MatmulService", "method": "Matmul"},
           {"service": "gemmd.v1.MatmulService", "method": "MatmulGrouped"},
           {"service": "gemmd.v1.MatmulService", "method": "Sequence"},
           {"service": "gemmd.v1.TensorService", "method": "CreateTensor"},
           {"service": "gemmd.v1.KernelService", "method": "PrepareKernels"},
           {"service": "gemmd.v1.ModelService", "method": "CreateModel"}],
  "retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.1s",
                  "maxBackoff": "5s", "backoffMultiplier": 2,
                  "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]})";

// The least that --max-message-bytes of a daemon can be, and what of a message
// is for all that is beside matrices, also of an answer.
constexpr int64_t kLeastLimit = 1 << 20;
constexpr int64_t kBesideMatrices = 64 << 10;

// `steady` as gRPC takes it, by a clock that nobody sets. What has passed stays
// in the past: gRPC rounds up to milliseconds, in which a call may succeed.
gpr_timespec At(absl::Time steady) {
  const timespec left = absl::ToTimespec(steady - jit::SteadyNow());
  return gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      {left.tv_sec, static_cast<int32_t>(left.tv_nsec), GPR_TIMESPAN});
}

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(std::clamp<int64_t>(
      absl::ToInt64Milliseconds(duration), 1, std::numeric_limits<int>::max()));
}

// Why `channel` does not connect, as far as gRPC knows: it tells those alone
// who make a call.
std::string WhyNot(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(At(jit::SteadyNow() + absl::Milliseconds(100)));
  const grpc::Slice empty;
  const absl::Status status = CallRaw(channel, "/grpc.health.v1.Health/Check",
                                      context, grpc::ByteBuffer(&empty, 1))
                                  .status();
  return absl::IsUnavailable(status) ? absl::StrCat(": ", status.message())
                                     : "";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(
    const std::string& target, Options options) {
  // Keeps gRPC up until the process ends. When its last user goes it may wait
  // ten seconds for a thread that polls on behalf of a large write.
  static const bool kept = (grpc_init(), true);
  (void)kept;
  const Options given = options;  // For Another.
  if (options.credentials == nullptr) {
    RETURN_IF_ERROR(CheckSecurity(options.security, target));
    ASSIGN_OR_RETURN(options.credentials, CredentialsOf(options.security));
  }
  ASSIGN_OR_RETURN(auto authorization,
                   Authorization::Open(options.security.token_file));
  grpc::ChannelArguments arguments;
  // What is meant for this machine passes by no proxy.
  if (IsThisMachine(target)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // The daemon's own limit decides, not gRPC's default of 4 MiB.
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetServiceConfigJSON(kRetries);
  // gRPC would let all clients of a process share one.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // A daemon that comes back is found within seconds (while calls fail at once
  // gRPC looks every five); by default it waits longer from try to try, two
  // minutes in the end.
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // The time-out is also the kernel's for bytes that the daemon does not take:
  // a write that is under way would otherwise outlast every deadline.
  const int silence = Milliseconds(options.silence);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, silence);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, silence);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(target, options.credentials, arguments);
  const absl::Time deadline = jit::SteadyNow() + options.connect_timeout;
  if (!channel->WaitForConnected(At(deadline))) {
    // One that speaks TLS ends such a connection, and says nothing.
    const bool is_plaintext =
        given.credentials == nullptr && !given.security.tls();
    return absl::UnavailableError(absl::StrCat(
        "no daemon answers ", is_plaintext ? "in plaintext " : "", "at ",
        target, " within ", absl::FormatDuration(options.connect_timeout),
        WhyNot(channel)));
  }
  return std::unique_ptr<Client>(
      new Client(target, std::move(channel), given, std::move(authorization)));
}

Client::Client(std::string target, std::shared_ptr<grpc::Channel> channel,
               Options options, std::unique_ptr<Authorization> authorization)
    : target_(std::move(target)),
      channel_(std::move(channel)),
      options_(std::move(options)),
      authorization_(std::move(authorization)),
      tensors_(v1::TensorService::NewStub(channel_)),
      models_(v1::ModelService::NewStub(channel_)),
      kernels_(v1::KernelService::NewStub(channel_)),
      server_(v1::ServerService::NewStub(channel_)) {}

absl::Time Client::EndOf(absl::Duration timeout) const {
  return jit::SteadyNow() +
         (timeout == absl::ZeroDuration() ? options_.timeout : timeout);
}

void Client::Prepare(grpc::ClientContext& context,
                     absl::Duration timeout) const {
  Prepare(context, EndOf(timeout));
}

void Client::Prepare(grpc::ClientContext& context, absl::Time end) const {
  const std::string authorization = authorization_->Get();
  if (!authorization.empty()) {
    context.AddMetadata("authorization", authorization);
  }
  if (end == absl::InfiniteFuture()) return;
  context.set_deadline(At(end));
}

absl::StatusOr<std::unique_ptr<SharedMemory>> Client::Share(int64_t bytes) {
  const auto limit = [&]() -> absl::StatusOr<int64_t> {
    ASSIGN_OR_RETURN(const v1::ServerInfo info, GetServerInfo());
    return info.limits().max_region_bytes();
  };
  const auto create = [&](const std::string& handle) {
    grpc::ClientContext context;
    Prepare(context, absl::ZeroDuration());
    v1::CreateRegionRequest request;
    request.set_handle(handle);
    v1::RegionInfo info;
    return ToStatus(v1::RegionService::NewStub(channel_)->CreateRegion(
        &context, request, &info));
  };
  return SharedMemory::Create(target_, bytes, limit, create);
}

absl::StatusOr<std::vector<v1::Execution>> Client::PrepareKernels(
    absl::Span<const v1::Problem> problems, const std::string& device) {
  v1::PrepareKernelsRequest request;
  *request.mutable_problems() = {problems.begin(), problems.end()};
  request.set_device(device);
  return PrepareKernels(request);
}

absl::StatusOr<std::vector<v1::Execution>> Client::PrepareKernels(
    const v1::PrepareKernelsRequest& request) {
  grpc::ClientContext context;
  Prepare(context, absl::ZeroDuration());
  v1::PrepareKernelsResponse response;
  RETURN_IF_ERROR(
      ToStatus(kernels_->PrepareKernels(&context, request, &response)));
  return std::vector<v1::Execution>(response.kernels().begin(),
                                    response.kernels().end());
}

absl::StatusOr<std::vector<v1::KernelSummary>> Client::ListKernels() {
  const absl::Time end = EndOf(absl::ZeroDuration());  // Of all pages.
  std::vector<v1::KernelSummary> kernels;
  PageToken token;
  do {
    grpc::ClientContext context;
    Prepare(context, end);
    v1::ListKernelsRequest request;
    request.set_page_token(token.text());
    v1::ListKernelsResponse page;
    RETURN_IF_ERROR(ToStatus(kernels_->ListKernels(&context, request, &page)));
    for (v1::KernelSummary& kernel : *page.mutable_kernels()) {
      kernels.push_back(std::move(kernel));
    }
    RETURN_IF_ERROR(token.Advance(page.next_page_token()));
  } while (!token.text().empty());
  return kernels;
}

absl::StatusOr<v1::KernelDescription> Client::DescribeKernel(
    const std::string& key) {
  grpc::ClientContext context;
  Prepare(context, absl::ZeroDuration());
  v1::DescribeKernelRequest request;
  request.set_key(key);
  v1::KernelDescription description;
  RETURN_IF_ERROR(
      ToStatus(kernels_->DescribeKernel(&context, request, &description)));
  return description;
}

absl::Status Client::EvictKernel(const std::string& key) {
  grpc::ClientContext context;
  Prepare(context, absl::ZeroDuration());
  v1::EvictKernelRequest request;
  request.set_key(key);
  v1::EvictKernelResponse response;
  return ToStatus(kernels_->EvictKernel(&context, request, &response));
}

absl::Status Client::TuneKernels(
    const v1::TuneKernelsRequest& request,
    const std::function<void(const v1::TuneKernelsResponse&)>& done) {
  grpc::ClientContext context;
  Prepare(context, absl::ZeroDuration());
  const auto reader = kernels_->TuneKernels(&context, request);
  v1::TuneKernelsResponse response;
  while (reader->Read(&response)) done(response);
  return ToStatus(reader->Finish());
}

absl::StatusOr<v1::ServerInfo> Client::GetServerInfo() {
  return GetServerInfo(EndOf(absl::ZeroDuration()));
}

absl::StatusOr<v1::ServerInfo> Client::GetServerInfo(absl::Time end) {
  grpc::ClientContext context;
  Prepare(context, end);
  v1::ServerInfo info;
  RETURN_IF_ERROR(ToStatus(server_->GetServerInfo(&context, {}, &info)));
  return info;
}

uint64_t Client::MessageRoom(uint64_t bytes, absl::Time end) {
  if (bytes <= kLeastLimit - kBesideMatrices) {
    return kLeastLimit - kBesideMatrices;
  }
  int64_t limit = max_message_bytes_;
  if (limit < 0) {
    const absl::StatusOr<v1::ServerInfo> info = GetServerInfo(end);
    if (!info.ok()) {
      // These are for good; after others it may tell the next time.
      if (absl::IsUnimplemented(info.status()) ||
          absl::IsPermissionDenied(info.status())) {
        max_message_bytes_ = 0;
      }
      return bytes;
    }
    limit = std::max<int64_t>(info->limits().max_message_bytes(), 0);
    max_message_bytes_ = limit;
  }
  if (limit == 0) return bytes;
  return std::max(limit, kLeastLimit) - kBesideMatrices;
}

absl::StatusOr<v1::Statistics> Client::GetStatistics() {
  grpc::ClientContext context;
  Prepare(context, absl::ZeroDuration());
  v1::Statistics statistics;
  RETURN_IF_ERROR(ToStatus(server_->GetStatistics(&context, {}, &statistics)));
  return statistics;
}

absl::Status Client::CheckHealth() {
  grpc::ClientContext context;
  Prepare(context, absl::ZeroDuration());
  // HealthCheckRequest{} is empty; HealthCheckResponse is {status = 1}, whose
  // value SERVING is 1.
  const grpc::Slice empty;
  ASSIGN_OR_RETURN(const grpc::ByteBuffer response,
                   CallRaw(channel_, "/grpc.health.v1.Health/Check", context,
                           grpc::ByteBuffer(&empty, 1)));
  grpc::Slice answer;
  if (!response.TrySingleSlice(&answer).ok() || answer.size() != 2 ||
      answer.begin()[0] != 0x08 || answer.begin()[1] != 0x01) {
    return absl::UnavailableError("the daemon says that it does not serve");
  }
  return absl::OkStatus();
}

}  // namespace gemmd::client
