#include "service/rpc/server.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"
#include "service/engine/try_again.h"
#include "service/log/log.h"
#include "service/rpc/access_files.h"
#include "service/rpc/address.h"
#include "service/rpc/call_turns.h"
#include "service/rpc/grpc_settings.h"
#include "service/rpc/grpc_time.h"
#include "service/rpc/handler.h"
#include "service/rpc/health_monitor.h"
#include "service/rpc/listener.h"
#include "service/rpc/live_calls.h"
#include "service/rpc/region/door.h"
#include "service/rpc/rota.h"

namespace gemmd::rpc {
namespace {

// gRPC holds message sizes in an int.
constexpr int64_t kMaxReceiveBytes = std::numeric_limits<int>::max();
// For the last answers to reach their clients.
constexpr absl::Duration kDeliveryTime = absl::Milliseconds(200);
// For clients to close connections that are told to end.
constexpr absl::Duration kGoodbyeTime = absl::Milliseconds(500);

void LogFailure(const Call& call, const absl::Status& status,
                absl::Duration duration) {
  // A client that leaves is no trouble of ours.
  const auto level =
      absl::IsCancelled(status) ? log::Level::kInfo : log::Level::kWarning;
  const auto trace = call.metadata().trace();
  log::Write(
      level, "request_failed",
      {{"id", call.id()},
       {trace ? "trace_id" : "", trace ? trace->trace_id : ""},
       {"method", call.method()},
       {"peer", call.peer()},
       {"principal", call.principal() == nullptr ? "" : call.principal()->name},
       {"code", absl::StatusCodeToString(status.code())},
       {"us", absl::ToInt64Microseconds(duration)},
       {"message", status.message()}});
}

// Where calls come in. Used on its loop.
struct Door final : Sweepable {
  // `ask`: another one, of gRPC.
  Door(int number, std::unique_ptr<grpc::ServerCompletionQueue> queue,
       absl::Duration spin, std::function<void()> ask)
      : number(number),
        ask(loop, std::move(ask)),
        loop(std::move(queue), spin) {
    loop.Attend(turns);
  }

  void Sweep() override { asked_until_sweep = asked; }
  // Once the loop has caught up with the sweep: whether gRPC, asked for a call
  // before it, had none. It gives what it has at once.
  bool NoCallWaits() const { return waits && asked == asked_until_sweep; }

  const int number;
  EventLoop::Nudge ask;
  CallTurns turns;
  EventLoop loop;
  int64_t asked = 0;   // So often was gRPC asked for a call.
  bool waits = false;  // For one.
  int64_t asked_until_sweep = 0;
};

}  // namespace

class Server::Impl {
 public:
  Impl(Options options, engine::Engine& engine)
      : options_(std::move(options)),
        runtime_(engine, options_.facts, options_.limits, options_.models),
        boot_(absl::StrFormat("%08x", absl::Uniform<uint32_t>(bits_))) {}

  absl::Status Start();
  bool Drain(absl::Duration grace);
  absl::Duration drain_grace() const { return options_.drain_grace; }
  const std::vector<std::string>& addresses() const { return addresses_; }
  const Runtime& runtime() const { return runtime_; }

 private:
  absl::Status Bind();
  // Lets in those who share memory, where that is granted.
  void OpenRegions();
  // Plaintext stays on this machine, unless it is forced.
  absl::Status CheckPlaintext() const;
  // Of Unix sockets that every user of the machine may use.
  void WarnOfOpenSockets() const;
  // Those of the repository, of principals that there are.
  absl::Status RestoreModels();
  void StartProbing();
  // Asks for a call where it is the loop's turn, sees to the next one once it
  // has come, and answers when it is the turn of the call.
  Task Serve(Door& door);
  void AskBy(const Rota::Loops& loops);
  Async<absl::Status> Answer(Call& call);
  // Takes a place for a call whose connection has `calls` with it, of which
  // `counted` count. RESOURCE_EXHAUSTED when those are more than its share.
  absl::Status TakePlace(int64_t counted, int64_t calls);

  const Options options_;
  Runtime runtime_;
  absl::BitGen bits_;
  // Request ids are this and a count, so that they differ between restarts.
  const std::string boot_;
  std::atomic<int64_t> next_id_ = 0;

  grpc::AsyncGenericService generic_;
  std::vector<std::unique_ptr<Door>> doors_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Listener> listener_;
  std::vector<std::string> addresses_;
  std::unique_ptr<region::Door> region_door_;  // May be null.
  LiveCalls live_;
  std::optional<Rota> rota_;
  bool probes_ended_ = true;
  std::vector<bool> works_;  // By device; of the monitor's thread.
  std::unique_ptr<HealthMonitor> monitor_;
  AccessFiles files_{runtime_};  // Last: its thread uses the runtime.
};

absl::Status Server::Impl::Start() {
  CHECK(options_.limits.max_message_bytes <= kMaxReceiveBytes);
  RETURN_IF_ERROR(files_.Open(options_.tls, options_.identity));
  RETURN_IF_ERROR(RestoreModels());
  RETURN_IF_ERROR(Bind());
  StartProbing();
  for (auto& door : doors_) {
    door->loop.Start(
        [this, door = door.get()] {
          door->loop.Add(*door);
          if (rota_->MaySleep(door->number)) door->loop.Park();
          Serve(*door);
        },
        [this, door = door.get()] {
          if (door->number == 0) rota_->Sweep();
          if (door->NoCallWaits()) runtime_.calls.NoneWaits();
        });
  }
  OpenRegions();
  listener_->Start();
  return absl::OkStatus();
}

void Server::Impl::OpenRegions() {
  if (options_.limits.max_region_bytes == 0) return;
  auto door = region::Door::Open(addresses_, *runtime_.regions, {});
  if (door.ok()) {
    region_door_ = *std::move(door);
  } else {  // Its clients send their bytes.
    log::Write(log::Level::kWarning, "no_regions",
               {{"message", door.status().message()}});
  }
}

absl::Status Server::Impl::Bind() {
  RETURN_IF_ERROR(CheckPlaintext());
  WarnOfOpenSockets();
  std::function<std::shared_ptr<const tls::Context>()> tls;
  if (runtime_.tls != nullptr) {
    tls = [this] { return runtime_.tls->context(); };
  }
  ASSIGN_OR_RETURN(
      listener_,
      Listener::Create(options_.listen,
                       {.max_connections = options_.limits.max_connections,
                        .serve =
                            [this](int fd) {
                              grpc::AddInsecureChannelFromFd(server_.get(), fd);
                            },
                        .ended =
                            [this](const std::string& identity) {
                              runtime_.engine.tensors().Disconnect(identity);
                            },
                        .tls = std::move(tls),
                        .overrun =
                            [this] {
                              for (auto& door : doors_) door->loop.SweepSoon();
                            }},
                       runtime_.requests, runtime_.responses, runtime_.calls));
  addresses_ = listener_->addresses();
  // Keeps gRPC up until the process ends. When its last user goes it may wait
  // ten seconds for a thread that polls on behalf of a large write, and a drain
  // with it.
  static const bool kept = (grpc_init(), true);
  (void)kept;
  grpc::ServerBuilder builder;
  SetLimits(options_.limits, builder);
  // Every call goes to the generic service: one way in for all methods, and
  // messages that are never joined.
  builder.RegisterAsyncGenericService(&generic_);
  const int loops = options_.loops > 0 ? options_.loops : DefaultLoops();
  rota_.emplace(loops);
  for (int i = 0; i < loops; ++i) {
    doors_.push_back(std::make_unique<Door>(i, builder.AddCompletionQueue(),
                                            options_.spin, [this, i] {
                                              doors_[i]->loop.Unpark();
                                              Serve(*doors_[i]);
                                            }));
  }
  server_ = builder.BuildAndStart();
  CHECK(server_ != nullptr);
  return absl::OkStatus();
}

absl::Status Server::Impl::CheckPlaintext() const {
  if (runtime_.tls != nullptr) return absl::OkStatus();
  for (const std::string& address : options_.listen) {
    if (IsLocal(address)) continue;
    if (!options_.allow_plaintext_nonloopback) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--listen is ", address,
          ", which other machines can reach, and would carry plaintext; "
          "allowed: loopback or unix: addresses, or any with "
          "--tls-certificate-file or --allow-plaintext-nonloopback"));
    }
    log::Write(log::Level::kWarning, "plaintext",
               {{"address", address},
                {"message",
                 "whoever is on the way can read and change everything, "
                 "tokens included; --tls-certificate-file ends that"}});
  }
  return absl::OkStatus();
}

void Server::Impl::WarnOfOpenSockets() const {
  if (runtime_.gate != nullptr) return;
  for (const std::string& address : options_.listen) {
    if (!IsUnix(address) || !IsInOpenFolder(PathOf(address))) continue;
    log::Write(log::Level::kWarning, "open_socket",
               {{"address", address},
                {"message",
                 "every user of the machine may enter its folder and be a "
                 "client; a folder of mode 0700 or 0750, or --policy-file, "
                 "ends that"}});
  }
}

absl::Status Server::Impl::RestoreModels() {
  const auto policy =
      runtime_.gate == nullptr ? nullptr : runtime_.gate->policy();
  return runtime_.models.Restore([&](const std::string& owner) {
    if (policy == nullptr) return owner.empty();
    return policy->principals().contains(owner);
  });
}

void Server::Impl::StartProbing() {
  std::vector<device::Device*> devices;
  for (int i = 0; i < runtime_.engine.device_count(); ++i) {
    devices.push_back(&runtime_.engine.device(i));
  }
  works_.resize(devices.size());
  const auto on_change = [this](int device, const absl::Status& state) {
    // What hangs for so long is as good as lost.
    if (absl::IsDeadlineExceeded(state)) {
      runtime_.engine.MarkFailed(device, state.message());
    }
    // What has failed for good answers probes in vain.
    const absl::Status found =
        state.ok() ? runtime_.engine.device_state(device) : state;
    works_[device] = found.ok();
    // One lost device of several does not end the daemon.
    runtime_.health.SetServing(absl::c_linear_search(works_, true));
    const std::string& name = runtime_.engine.device(device).description().name;
    if (found.ok()) {
      log::Write(log::Level::kInfo, "device_works", {{"device", name}});
    } else {
      log::Write(log::Level::kError, "device_failed",
                 {{"device", name}, {"message", found.message()}});
    }
  };
  monitor_ = std::make_unique<HealthMonitor>(
      HealthMonitor::Options{
          .interval = options_.probe_interval,
          .timeout = options_.probe_timeout,
          .probe = [&engine = runtime_.engine](
                       int device) { return engine.Probe(device); },
          .on_change = on_change,
          .on_all_lost = options_.on_devices_lost},
      devices);
}

Task Server::Impl::Serve(Door& door) {
  if (!rota_->Ask(door.number) || !live_.Ask()) co_return;
  {
    ++door.asked;
    door.waits = true;
    Call call(door.loop, absl::StrFormat("%s-%06x", boot_, next_id_++),
              runtime_);
    const bool accepted = co_await call.Accept(generic_);
    door.waits = false;
    if (!accepted) {  // Shutting down.
      live_.Withdraw();
      co_return;
    }
    live_.Begin();
    AskBy(rota_->Begin(door.number));
    Serve(door);
    auto connection = listener_->Find(call.transport());
    absl::Status status = absl::CancelledError("the connection has ended");
    bool has_place = false;
    const absl::Time start = jit::SteadyNow();
    if (connection != nullptr) {
      connection->QueueCall();
      co_await door.turns.Turn(connection.get(), !runtime_.calls.wait());
      const int64_t counted = call.Open(std::move(connection));
      status = TakePlace(counted, call.connection().calls());
      has_place = status.ok();
      if (has_place) status = co_await Answer(call);
      call.HoldRequests(0);
    }
    const absl::Duration duration = jit::SteadyNow() - start;
    co_await call.Finish(status);
    co_await call.Done();
    if (!call.TrueStatus(status).ok()) call.Undo();
    if (has_place) --runtime_.places;
    // Only now is it known whether the client was there to be answered.
    const absl::Status outcome = call.TrueStatus(status);
    runtime_.metrics.Ended(call.method(), call.proof(), outcome.code(),
                           jit::SteadyNow() - start);
    if (!status.ok() || !call.ended().ok()) {
      LogFailure(call, outcome, duration);
      runtime_.failures.Note({absl::Now(), call.id(), call.method(),
                              outcome.code(), std::string(outcome.message())});
    }
  }
  rota_->End(door.number);
  if (rota_->MaySleep(door.number)) door.loop.Park();
  live_.End();
}

void Server::Impl::AskBy(const Rota::Loops& loops) {
  for (auto& door : doors_) {
    if (loops[door->number]) door->ask.Set();
  }
}

Async<absl::Status> Server::Impl::Answer(Call& call) {
  if (runtime_.health.shutting_down()) {
    runtime_.metrics.Rejected(Rejection::kShutdown);
    co_return absl::UnavailableError("the daemon is shutting down");
  }
  CO_RETURN_IF_ERROR(call.ReadMetadata());
  const Method* const method = FindMethod(call.method());
  // Strangers are not told what there is.
  CO_RETURN_IF_ERROR(call.Admit(
      method == nullptr ? identity::Access::kAnyPrincipal : method->access));
  if (method == nullptr) {
    co_return absl::UnimplementedError(
        "unknown method; reflection lists those that there are");
  }
  absl::Status status = co_await method->handler(runtime_, call);
  absl::Status concluded = co_await call.Conclude(std::move(status));
  co_return concluded;
}

absl::Status Server::Impl::TakePlace(int64_t counted, int64_t calls) {
  const Limits& limits = options_.limits;
  // Connections share the places, so that a few cannot take all of them, and
  // whatever others hold, each has some.
  const int64_t fair = std::max<int64_t>(
      kLeastCallsPerConnection,
      limits.max_calls / std::max<int64_t>(1, listener_->connection_count()));
  const int64_t most = std::min(limits.max_calls_per_connection, fair);
  if (counted > most) {
    runtime_.metrics.Rejected(Rejection::kCallsOfConnection);
    return engine::TryAgainError(
        absl::StrCat("the connection has ", most, " calls, its share"),
        kCallsEnd);
  }
  const int64_t places = ++runtime_.places;
  if (places > limits.max_calls && calls > kLeastCallsPerConnection) {
    --runtime_.places;
    runtime_.metrics.Rejected(Rejection::kCalls);
    return engine::TryAgainError(
        absl::StrCat("the daemon serves ", limits.max_calls,
                     " calls (--max-calls) and this connection has ",
                     kLeastCallsPerConnection, " of them"),
        kCallsEnd);
  }
  return absl::OkStatus();
}

bool Server::Impl::Drain(absl::Duration grace) {
  if (server_ == nullptr) return probes_ended_;
  probes_ended_ = monitor_->Stop();
  runtime_.health.SetServing(false);
  absl::SleepFor(grace);
  runtime_.health.BeginShutdown();
  // A socket that is closed before it has read everything takes with it what
  // its client has not read: answers get time to arrive before connections
  // are closed.
  const bool answered = live_.WaitUntilOver(options_.drain_timeout);
  if (answered) absl::SleepFor(kDeliveryTime);
  // Nobody waits for a kernel any more, or may wait any longer.
  runtime_.engine.cache().GiveUp();
  // Cancels what runs, at once, and ends connections that idle, soon: gRPC
  // would ask each first and wait for its answer.
  const gpr_timespec last =
      After(answered ? kGoodbyeTime : absl::ZeroDuration());
  listener_->StopAccepting();
  // gRPC ends no call whose bytes are on the way and are not taken.
  if (!answered) listener_->CutUntaken();
  server_->Shutdown(last);
  live_.CloseAndWait();
  listener_.reset();
  doors_.clear();
  server_.reset();
  // Last: a look-up of users that hangs holds up no client.
  files_.Close();
  return probes_ended_;
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() { impl_->Drain(absl::ZeroDuration()); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(Options options,
                                                      engine::Engine& engine) {
  auto impl = std::make_unique<Impl>(std::move(options), engine);
  RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

const std::vector<std::string>& Server::addresses() const {
  return impl_->addresses();
}

const Runtime& Server::runtime() const { return impl_->runtime(); }

bool Server::Drain() { return impl_->Drain(impl_->drain_grace()); }

}  // namespace gemmd::rpc
