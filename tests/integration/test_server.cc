#include "tests/integration/test_server.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "service/host/host_device.h"
#include "service/host/numbers.h"
#include "tests/integration/raw_call.h"
#include "tests/service/fake_allocation.h"

namespace gemmd::testing {
namespace {

std::string Repeat(float value, int64_t count) {
  const uint16_t bits = host::ToBf16(value);
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) {
    bytes.append(reinterpret_cast<const char*>(&bits), sizeof bits);
  }
  return bytes;
}

// The host device, with probes and times that the test answers.
class ProbedDevice : public device::Device {
 public:
  ProbedDevice(std::unique_ptr<device::Device> device, int number,
               std::function<absl::Status()> probe, PlanTime time,
               bool shares_memory)
      : device_(std::move(device)),
        description_(device_->description()),
        probe_(std::move(probe)),
        time_(std::move(time)) {
    description_.times_kernels = time_ != nullptr;
    if (number > 0) description_.name += absl::StrCat(":", number);
    description_.imports_vmm = description_.imports_ipc = shares_memory;
    if (shares_memory) description_.uuid = FakeAllocation::Uuid(number);
  }

  const device::Description& description() const override {
    return description_;
  }
  int64_t FreeBytes() const override { return device_->FreeBytes(); }
  absl::StatusOr<std::unique_ptr<device::Imported>> ImportMemory(
      const device::ImportHandle& handle) override {
    return FakeAllocation::Import(handle);
  }
  absl::StatusOr<std::unique_ptr<device::Lane>> CreateLane() override {
    return device_->CreateLane();
  }
  absl::StatusOr<std::unique_ptr<device::Kernel>> Load(
      const jit::CompiledKernel& compiled, const jit::Plan& plan) override {
    return device_->Load(compiled, plan);
  }
  absl::Status Probe() override { return probe_ ? probe_() : device_->Probe(); }
  absl::StatusOr<std::unique_ptr<device::Timing>> CreateTiming(
      const jit::Problem&, absl::Span<const device::Contender> contenders,
      int64_t) override {
    return std::make_unique<FakeTiming>(contenders, time_);
  }

 private:
  const std::unique_ptr<device::Device> device_;
  device::Description description_;
  const std::function<absl::Status()> probe_;
  const PlanTime time_;
};

}  // namespace

TestServer::TestServer(Options options) {
  std::vector<std::unique_ptr<device::Device>> devices;
  for (int i = 0; i < options.devices; ++i) {
    auto device =
        host::CreateHostDevice({.memory_bytes = options.device_bytes});
    if (options.hooks != nullptr) {
      device = std::make_unique<FakeDevice>("host", options.hooks,
                                            options.device_bytes);
    }
    devices.push_back(
        std::make_unique<ProbedDevice>(std::move(device), i, options.probe,
                                       options.time, options.shares_memory));
  }
  if (options.limits.max_tensor_bytes == 0) {
    options.limits.max_tensor_bytes = options.device_bytes / 2;
  }
  engine_ = engine::Engine::Create(
                {.executor = options.executor,
                 .tensors = {.max_bytes = options.limits.max_tensor_bytes},
                 .preparer = options.preparer,
                 .tuning = &tuning_},
                std::move(devices), cache_, templates_)
                .value();
  char folder[] = "/tmp/gemmd_test_XXXXXX";
  CHECK(mkdtemp(folder) != nullptr);
  folder_ = folder;
  rpc::Server::Options server;
  server.listen = {"127.0.0.1:0", "unix:" + folder_ + "/socket"};
  server.drain_grace = options.drain_grace;
  server.drain_timeout = options.drain_timeout;
  if (options.probe) server.probe_interval = absl::Milliseconds(10);
  server.probe_timeout = options.probe_timeout;
  server.on_devices_lost = options.on_devices_lost;
  server.limits = options.limits;
  server.identity = options.identity;
  server.tls = options.tls;
  signal(SIGPIPE, SIG_IGN);  // As the daemon does.
  server.facts.version = "test";
  server_ = rpc::Server::Start(std::move(server), *engine_).value();
  tcp_ = Connect(server_->addresses()[0]);
  unix_ = Connect(server_->addresses()[1]);
}

TestServer::~TestServer() {
  server_.reset();
  unlink((folder_ + "/socket").c_str());
  rmdir(folder_.c_str());
}

grpc::Status TestServer::CallRaw(const std::string& method,
                                 const std::string& request,
                                 std::string* response) {
  return testing::CallRaw(tcp_, method, request, absl::Seconds(30), response);
}

v1::MatmulRequest OnesTimesTwos(int64_t m, int64_t n, int64_t k) {
  v1::MatmulRequest request;
  v1::Problem& problem = *request.mutable_header()->mutable_problem();
  problem.set_m(m);
  problem.set_n(n);
  problem.set_k(k);
  problem.set_a_type(v1::DATA_TYPE_BF16);
  problem.set_b_type(v1::DATA_TYPE_BF16);
  problem.set_d_type(v1::DATA_TYPE_F32);
  request.set_a(Repeat(1, m * k));
  request.set_b(Repeat(2, k * n));
  return request;
}

}  // namespace gemmd::testing
