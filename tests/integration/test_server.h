// A whole server in this process: host device, a cache that needs no
// compiler, any free port and a Unix socket.
#ifndef GEMMD_TESTS_INTEGRATION_TEST_SERVER_H_
#define GEMMD_TESTS_INTEGRATION_TEST_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "gemmd/v1/kernels.grpc.pb.h"
#include "gemmd/v1/matmul.grpc.pb.h"
#include "gemmd/v1/server.grpc.pb.h"
#include "gemmd/v1/tensors.grpc.pb.h"
#include "service/rpc/server.h"
#include "tests/service/fake_cache.h"
#include "tests/service/fake_device.h"
#include "tests/service/fake_timing.h"

namespace gemmd::testing {

class TestServer {
 public:
  struct Options {
    rpc::Limits limits;
    engine::Executor::Options executor;
    engine::Preparer::Options preparer;
    int devices = 1;  // "host", "host:1" and so on.
    int64_t device_bytes = int64_t{1} << 30;
    bool shares_memory = false;  // Of devices: see fake_allocation.h.
    absl::Duration drain_grace = absl::ZeroDuration();
    absl::Duration drain_timeout = absl::Seconds(30);
    // Answers the device's probes, every 10 ms, when it is set.
    std::function<absl::Status()> probe;
    PlanTime time;  // What kernels take; null: they are not timed.
    std::shared_ptr<const Hooks> hooks;  // Of the device's lanes; may be null.
    absl::Duration probe_timeout = absl::Seconds(10);
    std::function<void()> on_devices_lost;
    identity::Files identity;
    tls::Files tls;  // Of the address; the Unix socket is plaintext.
  };

  TestServer() : TestServer(Options()) {}
  explicit TestServer(Options options);
  ~TestServer();

  // Over TCP, and over the Unix socket; without limits of their own.
  const std::shared_ptr<grpc::Channel>& channel() const { return tcp_; }
  const std::shared_ptr<grpc::Channel>& unix_channel() const { return unix_; }
  const std::string& address() const { return server_->addresses()[0]; }
  std::string unix_target() const { return "unix:" + folder_ + "/socket"; }

  FakeCache& cache() { return cache_; }
  rpc::Server& server() { return *server_; }
  engine::Engine& engine() { return *engine_; }

  // A call of any method with any bytes.
  grpc::Status CallRaw(const std::string& method, const std::string& request,
                       std::string* response = nullptr);

 private:
  FakeCache cache_;
  const jit::TemplateLibrary templates_ = jit::TemplateLibrary::Embedded();
  jit::TuningTable tuning_{{}, "digest"};
  std::unique_ptr<engine::Engine> engine_;
  std::string folder_;
  std::unique_ptr<rpc::Server> server_;
  std::shared_ptr<grpc::Channel> tcp_;
  std::shared_ptr<grpc::Channel> unix_;
};

// bf16 inputs of ones (A) and twos (B), tight: every element of D is 2 k.
v1::MatmulRequest OnesTimesTwos(int64_t m, int64_t n, int64_t k);

}  // namespace gemmd::testing

#endif  // GEMMD_TESTS_INTEGRATION_TEST_SERVER_H_
