// latency: round trips of small requests and cold compiles of a daemon.
//
//   latency --target localhost:50051 [--device cuda:0] [--json FILE]
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/mutexes.h"
#include "jit/base/status.h"
#include "tests/bench/latency/measure.h"

ABSL_FLAG(std::string, target, "localhost:50051", "Address of the daemon.");
ABSL_FLAG(std::string, device, "", "Device to measure; empty: its choice.");
ABSL_FLAG(int32_t, requests, 2000, "Requests of each round-trip series.");
ABSL_FLAG(int32_t, side, 1024, "m, n and k of the resident product.");
ABSL_FLAG(bool, compiles, true, "Measure cold compiles (evicts kernels).");
ABSL_FLAG(int32_t, transfers, 0,
          "Times that a tensor of --transfer_side squared bf16 is sent and "
          "fetched.");
ABSL_FLAG(int32_t, transfer_side, 8192, "Its side.");
ABSL_FLAG(std::string, json, "", "File to write the figures to.");

namespace gemmd::latency {
namespace {

std::string Json(const RoundTrips& info, const RoundTrips& resident,
                 const std::vector<Compile>& compiles) {
  std::string json = absl::StrFormat(
      "{\n"
      " \"statistics_call\": {\"requests\": %d, \"p50_us\": %.1f, "
      "\"p99_us\": %.1f},\n"
      " \"resident_product\": {\"side\": %d, \"device\": \"%s\", "
      "\"kernel\": \"%s\", \"requests\": %d, \"p50_us\": %.1f, "
      "\"p99_us\": %.1f, \"plan_us\": %.1f, \"execute_us\": %.1f},\n"
      " \"cold_compiles\": [",
      info.requests, info.p50_us, info.p99_us, absl::GetFlag(FLAGS_side),
      resident.execution.device(), resident.execution.kernel(),
      resident.requests, resident.p50_us, resident.p99_us, resident.plan_us,
      resident.execute_us);
  const char* separator = "\n";
  for (const Compile& compile : compiles) {
    absl::StrAppendFormat(&json,
                          "%s  {\"kernel\": \"%s\", \"compile_ms\": %d, "
                          "\"prepare_ms\": %.1f}",
                          separator, compile.kernel, compile.compile_ms,
                          compile.prepare_us / 1e3);
    separator = ",\n";
  }
  return json + "\n ]\n}\n";
}

absl::Status Run() {
  client::Options options;
  options.timeout = absl::Minutes(5);
  ASSIGN_OR_RETURN(options.security, client::Security::Default());
  ASSIGN_OR_RETURN(
      const std::unique_ptr<client::Client> client,
      client::Client::Connect(absl::GetFlag(FLAGS_target), options));
  const std::string device = absl::GetFlag(FLAGS_device);
  const int requests = absl::GetFlag(FLAGS_requests);
  ASSIGN_OR_RETURN(const RoundTrips info, MeasureInfo(*client, requests));
  ASSIGN_OR_RETURN(
      const RoundTrips resident,
      MeasureResident(*client, device, absl::GetFlag(FLAGS_side), requests));
  std::vector<Compile> compiles;
  if (absl::GetFlag(FLAGS_compiles)) {
    ASSIGN_OR_RETURN(compiles, MeasureCompiles(*client, device));
  }
  const std::string json = Json(info, resident, compiles);
  std::fputs(json.c_str(), stdout);
  if (const int transfers = absl::GetFlag(FLAGS_transfers); transfers > 0) {
    ASSIGN_OR_RETURN(
        const Transfers rates,
        MeasureTransfers(*client, device, absl::GetFlag(FLAGS_transfer_side),
                         transfers));
    absl::PrintF("{\"transfers\": {\"up_gb_s\": %.3f, \"down_gb_s\": %.3f}}\n",
                 rates.up_gb_s, rates.down_gb_s);
  }
  if (const std::string path = absl::GetFlag(FLAGS_json); !path.empty()) {
    std::ofstream file(path);
    file << json;
    file.close();
    if (!file) return absl::UnknownError(absl::StrCat("cannot write ", path));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace gemmd::latency

int main(int argc, char** argv) {
  gemmd::cli::DoNotLookForDeadlocks();
  absl::SetProgramUsageMessage(
      "measures round trips and cold compiles of a gemmd daemon");
  absl::ParseCommandLine(argc, argv);
  if (absl::Status status = gemmd::latency::Run(); !status.ok()) {
    absl::FPrintF(stderr, "latency: %s\n", status.ToString());
    return 1;
  }
  return 0;
}
