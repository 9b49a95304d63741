#include "tests/bench/cache/start.h"

#include <signal.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "clients/cpp/client.h"
#include "jit/base/status.h"
#include "tests/integration/daemon_process.h"

namespace gemmd::jit {
namespace {

constexpr int kStarts = 21;

absl::StatusOr<client::Result> Multiply(const std::string& address) {
  ASSIGN_OR_RETURN(const std::unique_ptr<client::Client> client,
                   client::Client::Connect(address));
  client::Product product;
  product.problem.set_m(64);
  product.problem.set_n(64);
  product.problem.set_k(64);
  product.problem.set_a_type(v1::DATA_TYPE_BF16);
  product.problem.set_b_type(v1::DATA_TYPE_BF16);
  const std::string zeros(64 * 64 * 2, '\0');
  product.a = client::Operand::Bytes(zeros);
  product.b = client::Operand::Bytes(zeros);
  return client->Matmul(product);
}

struct Start {
  double answer_ms;
  v1::CubinSource source;
};

absl::StatusOr<Start> StartOnce(const std::vector<std::string>& flags) {
  const absl::Time start = absl::Now();
  testing::DaemonProcess daemon(flags);
  while (daemon.address().empty()) {
    if (absl::Now() - start > absl::Minutes(1)) {
      return absl::DeadlineExceededError(daemon.Log());
    }
    absl::SleepFor(absl::Microseconds(200));
  }
  ASSIGN_OR_RETURN(const client::Result result, Multiply(daemon.address()));
  const double took_ms = absl::ToDoubleMilliseconds(absl::Now() - start);
  daemon.Signal(SIGTERM);
  if (daemon.Wait() != 0) return absl::InternalError(daemon.Log());
  return Start{took_ms, result.execution.cubin_source()};
}

}  // namespace

absl::Status TimeStarts(const std::string& nvrtc) {
  const testing::TemporaryFolder folder;
  const std::string cache = "--cache-dir=" + folder.path() + "/cache";
  const std::vector<std::string> flags = {"--device=host", "--nvrtc=" + nvrtc,
                                          cache};
  ASSIGN_OR_RETURN(const Start first, StartOnce(flags));
  if (first.source != v1::CUBIN_SOURCE_COMPILED) {
    return absl::InternalError("the first daemon compiled nothing");
  }
  std::vector<double> times_ms;
  for (int i = 0; i < kStarts; ++i) {
    ASSIGN_OR_RETURN(const Start start, StartOnce(flags));
    if (start.source != v1::CUBIN_SOURCE_DISK) {
      return absl::InternalError("the kernel did not come from disk");
    }
    times_ms.push_back(start.answer_ms);
  }
  std::sort(times_ms.begin(), times_ms.end());
  absl::PrintF(
      "a daemon's start to its first answer: %.0f ms on an empty cache, the "
      "compile included; then %.0f ms median of %d, %.0f to %.0f ms\n",
      first.answer_ms, times_ms[kStarts / 2], kStarts, times_ms.front(),
      times_ms.back());
  return absl::OkStatus();
}

}  // namespace gemmd::jit
