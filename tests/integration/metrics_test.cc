// What a daemon counts, as Prometheus reads it.
#include <gmock/gmock.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/monitor/monitor.h"
#include "tests/integration/eventually.h"
#include "tests/integration/identity_fixture.h"
#include "tests/integration/policy_files.h"
#include "tests/integration/raw_call.h"
#include "tests/integration/test_server.h"
#include "tests/service/monitor/http_client.h"
#include "tests/service/tls/certificates.h"

namespace gemmd {
namespace {

using testing::CallRaw;
using testing::Certificate;
using testing::Eventually;
using testing::Fetch;
using testing::OnesTimesTwos;
using testing::PolicyFiles;
using testing::PrincipalClient;
using testing::TestServer;

constexpr char kMatmul[] = "gemmd.v1.MatmulService/Matmul";
constexpr absl::Duration kPatience = absl::Seconds(30);

class MetricsTest : public ::testing::Test {
 protected:
  void Start(TestServer::Options options = {}) {
    server_ = std::make_unique<TestServer>(std::move(options));
    monitor_ = monitor::Monitor::Start({.listen = "127.0.0.1:0"},
                                       server_->server(), server_->engine())
                   .value();
  }

  // Lines of values, without headers and comments.
  std::vector<std::string> Scrape() const {
    const std::string answer = Fetch(monitor_->address(), "/metrics");
    std::vector<std::string> lines;
    for (const auto line :
         absl::StrSplit(answer.substr(answer.find("\r\n\r\n") + 4), '\n')) {
      if (!line.empty() && line[0] != '#') lines.emplace_back(line);
    }
    return lines;
  }
  // Of "name{label="value"}"; -1 where there is none.
  double Value(const std::string& series) const {
    for (const std::string& line : Scrape()) {
      double value = 0;
      if (absl::StartsWith(line, series + " ") &&
          absl::SimpleAtod(line.substr(series.size() + 1), &value)) {
        return value;
      }
    }
    return -1;
  }
  // Whether it comes to be so: a call is counted a moment after its answer.
  bool Becomes(const std::string& series, double value) const {
    const bool so = Eventually([&] { return Value(series) == value; });
    if (!so) ADD_FAILURE() << series << " is " << Value(series);
    return so;
  }
  static std::string Requests(const std::string& method,
                              const std::string& code,
                              const std::string& principal_class = "none") {
    return absl::StrCat("gemmd_requests_total{method=\"", method, "\",code=\"",
                        code, "\",principal_class=\"", principal_class, "\"}");
  }
  static std::string Rejections(const std::string& reason) {
    return absl::StrCat("gemmd_rejections_total{reason=\"", reason, "\"}");
  }
  grpc::Status Multiply(const v1::MatmulRequest& request,
                        const std::shared_ptr<grpc::Channel>& channel) const {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
    v1::MatmulResponse response;
    return v1::MatmulService::NewStub(channel)->Matmul(&context, request,
                                                       &response);
  }

  std::unique_ptr<TestServer> server_;
  std::unique_ptr<monitor::Monitor> monitor_;
};

TEST_F(MetricsTest, CountsCallsByMethodAndCode) {
  Start();
  EXPECT_EQ(Value(Requests(kMatmul, "OK")), -1);
  ASSERT_TRUE(Multiply(OnesTimesTwos(2, 3, 4), server_->channel()).ok());
  ASSERT_TRUE(Multiply(OnesTimesTwos(2, 3, 4), server_->channel()).ok());
  v1::MatmulRequest wrong = OnesTimesTwos(2, 3, 4);
  wrong.mutable_header()->mutable_problem()->set_m(-1);
  ASSERT_FALSE(Multiply(wrong, server_->channel()).ok());
  Becomes(Requests(kMatmul, "OK"), 2);
  Becomes(Requests(kMatmul, "INVALID_ARGUMENT"), 1);
  Becomes(absl::StrCat("gemmd_request_duration_seconds_count{method=\"",
                       kMatmul, "\"}"),
          3);
  Becomes("gemmd_requests_in_flight", 0);
}

// Whoever shows several proofs counts by the one that made him who he is, and
// whose proof was refused by none.
TEST_F(MetricsTest, CountsCallsByHowTheirCallersProvedWhoTheyAre) {
  const Certificate servers({.name = "servers", .is_authority = true});
  const Certificate clients({.name = "clients", .is_authority = true});
  const Certificate own({.name = "one",
                         .alternatives = "DNS:localhost,IP:127.0.0.1",
                         .authority = &servers});
  const PolicyFiles files;
  TestServer::Options options;
  options.tls = {.certificate = files.Write("cert", own.Pem()),
                 .key = files.Write("key", own.KeyPem()),
                 .client_ca = files.Write("ca", clients.Pem())};
  options.identity = {
      .policy = files.WritePolicy(absl::StrCat(
          R"({"name": "worker", "roles": ["compute"],
              "certificates": ["CN:worker"]},
             {"name": "local", "roles": ["compute"],
              "unix_users": [")",
          getuid(), R"("]})")),
      .token_digests = files.Write("tokens", PolicyFiles::LineOf("worker"))};
  Start(std::move(options));

  const Certificate worker({.name = "worker", .authority = &clients});
  const auto tls = grpc::CreateChannel(
      server_->address(),
      grpc::SslCredentials({.pem_root_certs = servers.Pem(),
                            .pem_private_key = worker.KeyPem(),
                            .pem_cert_chain = worker.Pem()}));
  const auto call = [](int times, const std::shared_ptr<grpc::Channel>& channel,
                       const std::string& authorization = "") {
    grpc::Status last;
    for (int i = 0; i < times; ++i) {
      last = PrincipalClient(channel, authorization)
                 .Multiply(OnesTimesTwos(1, 1, 1));
    }
    return last.error_code();
  };
  const std::string token =
      absl::StrCat("Bearer ", PolicyFiles::TokenOf("worker"));
  EXPECT_EQ(call(1, server_->unix_channel()), grpc::OK);
  EXPECT_EQ(call(2, tls), grpc::OK);
  EXPECT_EQ(call(3, tls, token), grpc::OK);
  EXPECT_EQ(call(4, tls, token + "9"), grpc::UNAUTHENTICATED);
  Becomes(Requests(kMatmul, "OK", "unix_user"), 1);
  Becomes(Requests(kMatmul, "OK", "certificate"), 2);
  Becomes(Requests(kMatmul, "OK", "token"), 3);
  Becomes(Requests(kMatmul, "UNAUTHENTICATED", "none"), 4);
  EXPECT_EQ(Value(Requests(kMatmul, "OK", "none")), -1);
  Becomes(absl::StrCat("gemmd_request_duration_seconds_count{method=\"",
                       kMatmul, "\"}"),
          10);
}

TEST_F(MetricsTest, CountsWhatAProductTook) {
  Start();
  ASSERT_TRUE(Multiply(OnesTimesTwos(20, 30, 40), server_->channel()).ok());
  ASSERT_TRUE(Multiply(OnesTimesTwos(20, 30, 40), server_->channel()).ok());
  Becomes("gemmd_product_operations_total{device=\"host\"}",
          2 * 2.0 * 20 * 30 * 40);
  Becomes("gemmd_products_total{device=\"host\",kernel=\"loaded\"}", 1);
  Becomes("gemmd_kernel_hits_total{device=\"host\"}", 1);
  Becomes("gemmd_shapes_known{device=\"host\"}", 1);
  for (const char* phase :
       {"queue", "plan", "compile", "upload", "execute", "download", "total"}) {
    Becomes(absl::StrCat("gemmd_product_phase_duration_seconds_count{device="
                         "\"host\",phase=\"",
                         phase, "\"}"),
            2);
  }
  EXPECT_GT(Value("gemmd_device_busy_seconds_total{device=\"host\","
                  "queue=\"products\"}"),
            0);
  EXPECT_EQ(Value("gemmd_operand_bytes_total{direction=\"received\"}"),
            2 * 2 * (20 * 40 + 40 * 30));
  EXPECT_EQ(Value("gemmd_operand_bytes_total{direction=\"sent\"}"),
            2 * 4 * 20 * 30);
}

// The sum over the phases is what a request took, for those who add them up.
TEST_F(MetricsTest, PhasesAreThoseOfTheTotal) {
  Start();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(Multiply(OnesTimesTwos(64, 64, 64), server_->channel()).ok());
  }
  const auto sum = [&](absl::string_view phase) {
    return Value(absl::StrCat(
        "gemmd_product_phase_duration_seconds_sum{device=\"host\",phase=\"",
        phase, "\"}"));
  };
  double phases = 0;
  for (const char* phase :
       {"queue", "plan", "compile", "upload", "execute", "download"}) {
    phases += sum(phase);
  }
  EXPECT_NEAR(phases, sum("total"), 0.2 * sum("total") + 1e-3);
}

TEST_F(MetricsTest, ARefusedProductIsNoProductOfTheDevice) {
  Start();
  v1::MatmulRequest wrong = OnesTimesTwos(2, 3, 4);
  wrong.clear_b();
  ASSERT_FALSE(Multiply(wrong, server_->channel()).ok());
  Becomes(Requests(kMatmul, "INVALID_ARGUMENT"), 1);
  EXPECT_EQ(Value("gemmd_products_total{device=\"host\",kernel=\"loaded\"}"),
            0);
}

TEST_F(MetricsTest, CountsRejectionsByReason) {
  Start(
      {.limits = {.max_message_bytes = 1 << 20, .max_in_flight_bytes = 1 << 20},
       .device_bytes = 1 << 20});
  grpc::ClientContext context;
  context.AddMetadata("gemmd-message-bytes", "2000000");
  v1::MatmulResponse response;
  EXPECT_EQ(v1::MatmulService::NewStub(server_->channel())
                ->Matmul(&context, OnesTimesTwos(1, 1, 1), &response)
                .error_code(),
            grpc::RESOURCE_EXHAUSTED);
  Becomes(Rejections("message_size"), 1);

  // Of 512 KiB in all: more than that, and then more than is left.
  const auto create = [&](int64_t rows) {
    v1::CreateTensorRequest request;
    request.set_dtype(v1::DATA_TYPE_F32);
    request.set_rows(rows);
    request.set_columns(1024);
    return server_
        ->CallRaw("/gemmd.v1.TensorService/CreateTensor",
                  request.SerializeAsString())
        .error_code();
  };
  EXPECT_EQ(create(4096), grpc::RESOURCE_EXHAUSTED);
  Becomes(Rejections("tensor_size"), 1);
  EXPECT_EQ(create(70), grpc::OK);
  EXPECT_EQ(create(70), grpc::RESOURCE_EXHAUSTED);
  Becomes(Rejections("tensor_memory"), 1);
  EXPECT_EQ(Value(Rejections("shutdown")), 0);
}

TEST_F(MetricsTest, CountsWorkThatWouldTakeTooLong) {
  Start({.executor = {.max_work = absl::Nanoseconds(1)}});
  EXPECT_EQ(Multiply(OnesTimesTwos(2, 3, 4), server_->channel()).error_code(),
            grpc::RESOURCE_EXHAUSTED);
  Becomes(Rejections("work"), 1);
}

TEST_F(MetricsTest, LimitsAreThere) {
  Start({.limits = {.max_calls = 77}, .executor = {.max_queue = 5}});
  EXPECT_EQ(Value("gemmd_requests_limit"), 77);
  EXPECT_EQ(Value("gemmd_queue_limit{device=\"host\",queue=\"products\"}"), 5);
  EXPECT_EQ(Value("gemmd_queue_waiting{device=\"host\",queue=\"products\"}"),
            0);
  EXPECT_GT(Value("gemmd_compile_limit"), 0);
  EXPECT_EQ(Value("gemmd_budget_held_bytes{budget=\"requests\"}"), 0);
  EXPECT_EQ(Value("gemmd_device_up{device=\"host\"}"), 1);
  EXPECT_EQ(Value("gemmd_serving"), 1);
  EXPECT_GT(Value("process_resident_memory_bytes"), 1 << 20);
  EXPECT_GT(Value("process_open_fds"), 3);
  EXPECT_NEAR(Value("process_start_time_seconds"),
              static_cast<double>(absl::ToUnixSeconds(absl::Now())), 3600);
  EXPECT_EQ(Value("gemmd_connections"), 0);
  ASSERT_TRUE(Multiply(OnesTimesTwos(1, 1, 1), server_->channel()).ok());
  Becomes("gemmd_connections", 1);
}

TEST_F(MetricsTest, ALostDeviceIsDown) {
  Start({.devices = 2});
  server_->engine().MarkFailed(1, "it was dropped");
  EXPECT_EQ(Value("gemmd_device_up{device=\"host\"}"), 1);
  EXPECT_EQ(Value("gemmd_device_up{device=\"host:1\"}"), 0);
  EXPECT_EQ(Value("gemmd_device_memory_free_bytes{device=\"host:1\"}"), 0);
}

// Nothing that clients choose becomes a series.
TEST_F(MetricsTest, TenThousandShapesAndClientsAreNoMoreSeries) {
  Start({.limits = {.connection_idle = absl::Seconds(1)}});
  const auto names = [&] {
    std::set<std::string> series;
    for (const std::string& line : Scrape()) {
      series.insert(line.substr(0, line.rfind(' ')));
    }
    return series;
  };
  ASSERT_TRUE(Multiply(OnesTimesTwos(1, 1, 1), server_->channel()).ok());
  server_->CallRaw("/no/Such", "");
  ASSERT_TRUE(Becomes(Requests("other", "UNIMPLEMENTED"), 1));
  const std::set<std::string> before = names();

  constexpr int kThreads = 4, kEach = 2500;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const int number = t * kEach + i;
        // Each a client of its own, with a shape of its own.
        const auto channel = testing::Connect(server_->address());
        EXPECT_TRUE(
            Multiply(OnesTimesTwos(1 + number % 100, 1 + number / 100, 1),
                     channel)
                .ok());
        EXPECT_EQ(CallRaw(channel, absl::StrCat("/a\"b{", number, "}/C"), "",
                          kPatience)
                      .error_code(),
                  grpc::UNIMPLEMENTED);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(Becomes(Requests(kMatmul, "OK"), 1 + kThreads * kEach));
  ASSERT_TRUE(
      Becomes(Requests("other", "UNIMPLEMENTED"), 1 + kThreads * kEach));
  EXPECT_EQ(Value("gemmd_shapes_known{device=\"host\"}"), kThreads * kEach);
  EXPECT_EQ(names(), before);
  EXPECT_LT(before.size(), 1000u);
}

TEST_F(MetricsTest, OnlyLoopbackUnlessItIsAllowed) {
  Start();
  const auto refused = monitor::Monitor::Start(
      {.listen = "0.0.0.0:0"}, server_->server(), server_->engine());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  // What makes it allowed; a certificate does not.
  EXPECT_EQ(refused.status().message(),
            "--metrics-listen is 0.0.0.0:0, which other machines can reach, "
            "and is plaintext also with --tls-certificate-file; allowed: "
            "loopback or unix: addresses, or any with "
            "--allow-plaintext-nonloopback");
  EXPECT_TRUE(monitor::Monitor::Start(
                  {.listen = "0.0.0.0:0", .allow_nonloopback = true},
                  server_->server(), server_->engine())
                  .ok());
}

TEST_F(MetricsTest, ThereIsNothingElse) {
  Start();
  for (const char* path : {"/metrics/", "/../metrics", "/x"}) {
    EXPECT_TRUE(
        absl::StartsWith(Fetch(monitor_->address(), path), "HTTP/1.1 404 "))
        << path;
  }
}

}  // namespace
}  // namespace gemmd
