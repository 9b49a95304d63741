// Honest clients of every kind beside an abuser of every kind, against the
// real daemon on the host device. Ends with "N passed, N failed".
//
//   soak [SECONDS [tight|default [LATEST_SECONDS [ABUSER...]]]]
//
// The clients work alone for a fifth of the time and beside the abusers, all
// or those that are named, for the rest: those are another process, and have
// other cores where there are eight or more. Fails on a wrong, refused or late
// answer, when the daemon grows beyond what its limits add up to, when it does
// not give back in time what the abusers held, and when it does not end well.
// In time is 5 s on a machine that does nothing else; the default is meant for
// one that does. Prints each kind's latency, calm and abused.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "gemmd/v1/server.grpc.pb.h"
#include "tests/integration/abuser_process.h"
#include "tests/integration/abusers.h"
#include "tests/integration/daemon_process.h"
#include "tests/integration/sanitizer.h"
#include "tests/integration/soak_clients.h"

namespace gemmd::testing {
namespace {

constexpr int64_t kMiB = 1 << 20;
// Threads, kernels, products and tensors on their way, what the allocator
// keeps.
constexpr int64_t kSlackBytes = 128 * kMiB;

struct Plan {
  absl::Duration time;
  // Until an answer is there, or given back what abusers held.
  double latest_seconds;
  std::vector<std::string> abusers;  // None: all.
};

struct Profile {
  std::vector<std::string> flags;
  int64_t in_flight_bytes;  // --max-inflight-bytes
  int64_t connections;      // --max-connections
  int64_t calls;            // --max-calls

  // What deploy/README.md promises: requests, as much again of answers, and
  // so much for each call and each connection.
  int64_t MostBytes() const {
    return 2 * in_flight_bytes + (calls + 16 * connections) * (64 << 10) +
           connections * (256 << 10) + kSlackBytes + kSanitizerBytes;
  }
};

Profile ProfileOf(const std::string& name) {
  if (name == "tight") {
    return {{"--max-message-bytes=16MiB", "--max-inflight-bytes=64MiB",
             "--max-connections=64", "--max-calls=512", "--stall-timeout=10s",
             "--network-threads=4", "--spin=50us"},
            64 * kMiB,
            64,
            512};
  }
  return {{}, 4096 * kMiB, 1000, 8192};
}

bool IsAbuser(const std::string& name) {
  return absl::c_any_of(
      AllAbuses(), [&](const NamedAbuse& abuse) { return abuse.name == name; });
}

// Each thing that must hold is one check.
class Checks {
 public:
  void Expect(bool holds, const std::string& what) {
    holds ? ++passed_ : ++failed_;
    if (!holds) absl::PrintF("FAILED: %s\n", what);
  }
  int Finish() const {
    absl::PrintF("%d passed, %d failed\n", passed_, failed_);
    return failed_ == 0 ? 0 : 1;
  }

 private:
  int passed_ = 0;
  int failed_ = 0;
};

int64_t ResidentBytes(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmRSS:")) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

int64_t OpenFiles(pid_t pid) {
  std::error_code error;
  const std::filesystem::directory_iterator files(
      absl::StrCat("/proc/", pid, "/fd"), error);
  return error ? 0 : std::distance(begin(files), end(files));
}

bool HoldsWithin(absl::Duration time, const std::function<bool()>& condition) {
  const absl::Time end = absl::Now() + time;
  while (!condition()) {
    if (absl::Now() >= end) return false;
    absl::SleepFor(absl::Milliseconds(50));
  }
  return true;
}

class Soak {
 public:
  Soak(const Plan& plan, const Profile& profile)
      : plan_(plan), profile_(profile), daemon_(Flags(profile)) {}

  int Run() {
    if (daemon_.Connect() == nullptr) {
      checks_.Expect(false, absl::StrCat("the daemon starts\n", daemon_.Log()));
      return checks_.Finish();
    }
    for (const NamedWork& work : AllHonestWork()) {
      clients_.push_back(
          std::make_unique<HonestClient>(work, daemon_.address()));
    }
    // Kernels are compiled or found.
    absl::SleepFor(absl::Seconds(2));
    HoldsWithin(absl::Seconds(plan_.latest_seconds), [&] {
      return absl::c_all_of(clients_,
                            [](auto& client) { return client->has_record(); });
    });
    for (auto& client : clients_) Judge(*client, "at first");
    absl::SleepFor(plan_.time / 5);
    std::vector<Record> calm;
    for (auto& client : clients_) calm.push_back(Judge(*client, "calm"));
    const int64_t files = OpenFiles(daemon_.pid());
    const int64_t bytes = ResidentBytes(daemon_.pid());
    const int64_t most = Abuse();
    for (size_t i = 0; i < clients_.size(); ++i) {
      Report(*clients_[i], calm[i], Judge(*clients_[i], "beside abusers"));
    }
    absl::PrintF("memory: %d MiB calm, %d MiB at most\n", bytes / kMiB,
                 most / kMiB);
    const int64_t allowed = bytes + profile_.MostBytes();
    checks_.Expect(most <= allowed,
                   absl::StrCat("memory stays within the limits: ", most,
                                " bytes; allowed: ", allowed));
    const absl::Duration give_back = absl::Seconds(plan_.latest_seconds);
    checks_.Expect(
        HoldsWithin(give_back,
                    [&] { return OpenFiles(daemon_.pid()) <= files + 8; }),
        absl::StrCat("files are given back: ", files, " before, ",
                     OpenFiles(daemon_.pid()), " after"));
    checks_.Expect(HoldsWithin(give_back, [&] { return HoldsNothing(); }),
                   "queue places and tensors are given back");
    absl::SleepFor(absl::Seconds(1));
    for (auto& client : clients_) Judge(*client, "afterwards");
    clients_.clear();
    daemon_.Signal(SIGTERM);
    const auto code = daemon_.Wait(absl::Seconds(30));
    checks_.Expect(code == 0, absl::StrCat("the daemon ends with ",
                                           code.value_or(-999), " in 30 s"));
    return checks_.Finish();
  }

 private:
  static std::vector<std::string> Flags(const Profile& profile) {
    std::vector<std::string> flags = profile.flags;
    flags.push_back("--device=host");
    return flags;
  }

  // The most memory that the daemon takes meanwhile.
  int64_t Abuse() {
    const AbuserProcess abusers(cores_, daemon_.address(), plan_.abusers);
    int64_t most = 0;
    const absl::Time end = absl::Now() + plan_.time * 0.8;
    while (absl::Now() < end) {
      most = std::max(most, ResidentBytes(daemon_.pid()));
      absl::SleepFor(absl::Milliseconds(100));
    }
    checks_.Expect(kill(daemon_.pid(), 0) == 0, "the daemon lives");
    return most;
  }

  Record Judge(HonestClient& client, const std::string& when) {
    Record record = client.Take();
    const std::string who = absl::StrCat(client.name(), ", ", when, ": ");
    checks_.Expect(!record.seconds.empty(), absl::StrCat(who, "it is served"));
    checks_.Expect(
        record.failures.empty(),
        absl::StrCat(who, record.failures.size(), " of ", record.seconds.size(),
                     " failed, first: ",
                     record.failures.empty() ? "" : record.failures[0]));
    const double latest = Quantile(record.seconds, 1);
    checks_.Expect(latest <= plan_.latest_seconds,
                   absl::StrCat(who, "latest after ", latest, " s"));
    return record;
  }

  void Report(const HonestClient& client, const Record& calm,
              const Record& abused) {
    absl::PrintF(
        "%-14s calm %5d rounds p50 %6.1f ms p99 %6.1f ms; abused %5d rounds "
        "p50 %6.1f ms p99 %6.1f ms max %6.1f ms\n",
        client.name(), calm.seconds.size(), 1e3 * Quantile(calm.seconds, .5),
        1e3 * Quantile(calm.seconds, .99), abused.seconds.size(),
        1e3 * Quantile(abused.seconds, .5), 1e3 * Quantile(abused.seconds, .99),
        1e3 * Quantile(abused.seconds, 1));
  }

  // Besides the tensor that an honest client may have at any moment.
  bool HoldsNothing() const {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(2)));
    v1::Statistics statistics;
    return v1::ServerService::NewStub(OwnChannel(daemon_.address()))
               ->GetStatistics(&context, {}, &statistics)
               .ok() &&
           statistics.queued() <= 4 && statistics.tensors() <= 1;
  }

  const Plan plan_;
  const Profile profile_;
  const AbuserCores cores_;  // Before all that keeps to ours.
  DaemonProcess daemon_;
  std::vector<std::unique_ptr<HonestClient>> clients_;
  Checks checks_;
};

}  // namespace
}  // namespace gemmd::testing

int main(int argc, char** argv) {
  if (argc > 2 &&
      argv[1] == absl::string_view(gemmd::testing::AbuserProcess::kFlag)) {
    return gemmd::testing::RunAbusers({argv + 2, argv + argc});
  }
  const double seconds = argc > 1 ? std::atof(argv[1]) : 90;
  const std::string profile = argc > 2 ? argv[2] : "default";
  const double latest_seconds = argc > 3 ? std::atof(argv[3]) : 30;
  const std::vector<std::string> abusers(argv + std::min(argc, 4), argv + argc);
  if (seconds < 5 || latest_seconds <= 0 ||
      (profile != "default" && profile != "tight") ||
      !absl::c_all_of(abusers, gemmd::testing::IsAbuser)) {
    std::fprintf(stderr,
                 "usage: soak [SECONDS, at least 5 [tight|default "
                 "[LATEST_SECONDS [ABUSER...]]]]\nabusers:");
    for (const auto& [name, abuse] : gemmd::testing::AllAbuses()) {
      std::fprintf(stderr, " %s", name);
    }
    std::fprintf(stderr, "\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return gemmd::testing::Soak({.time = absl::Seconds(seconds),
                               .latest_seconds = latest_seconds,
                               .abusers = abusers},
                              gemmd::testing::ProfileOf(profile))
      .Run();
}
