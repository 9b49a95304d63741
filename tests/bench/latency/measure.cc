#include "tests/bench/latency/measure.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "jit/base/status.h"

namespace gemmd::latency {
namespace {

constexpr int kWarmups = 20;

double MicrosSince(absl::Time start) {
  return absl::ToDoubleMicroseconds(absl::Now() - start);
}

// Element at `fraction` of the sorted values, by the nearest-rank rule.
double Percentile(std::vector<double> values, double fraction) {
  const size_t index = std::min(values.size() - 1,
                                static_cast<size_t>(fraction * values.size()));
  std::nth_element(values.begin(), values.begin() + index, values.end());
  return values[index];
}

RoundTrips Summarise(const std::vector<double>& us) {
  RoundTrips trips;
  trips.requests = static_cast<int>(us.size());
  trips.p50_us = Percentile(us, 0.50);
  trips.p99_us = Percentile(us, 0.99);
  return trips;
}

absl::StatusOr<std::string> MakeTensor(client::Client& client,
                                       const std::string& device, int side) {
  v1::CreateTensorRequest request;
  request.set_dtype(v1::DATA_TYPE_BF16);
  request.set_rows(side);
  request.set_columns(side);
  request.set_device(device);
  request.set_label("latency");
  ASSIGN_OR_RETURN(const v1::TensorInfo info, client.CreateTensor(request));
  // Random bits with an exponent near that of one.
  std::mt19937 generator(1);
  std::string bytes(2 * static_cast<size_t>(side) * side, '\0');
  for (size_t i = 0; i < bytes.size(); i += 2) {
    const uint32_t bits = generator();
    bytes[i] = static_cast<char>(bits & 0xff);
    bytes[i + 1] = static_cast<char>((bits >> 8 & 0x80) | 0x3f);
  }
  RETURN_IF_ERROR(client.UploadTensor(info.handle(), {}, bytes));
  return info.handle();
}

v1::Problem Square(int side) {
  v1::Problem problem;
  problem.set_m(side);
  problem.set_n(side);
  problem.set_k(side);
  problem.set_a_type(v1::DATA_TYPE_BF16);
  problem.set_b_type(v1::DATA_TYPE_BF16);
  problem.set_d_type(v1::DATA_TYPE_BF16);
  return problem;
}

// Problems that use different templates parameters: large and small tiles,
// layouts, result types, C read or not.
std::vector<v1::Problem> CompiledProblems() {
  std::vector<v1::Problem> problems = {Square(8192), Square(4096), Square(1024),
                                       Square(256)};
  problems.push_back(Square(8192));
  problems.back().set_a_order(v1::ORDER_COLUMN_MAJOR);
  problems.push_back(Square(8192));
  problems.back().set_b_order(v1::ORDER_COLUMN_MAJOR);
  problems.push_back(Square(4096));
  problems.back().set_d_type(v1::DATA_TYPE_F32);
  problems.push_back(Square(4096));
  problems.back().set_beta(1);
  return problems;
}

}  // namespace

absl::StatusOr<RoundTrips> MeasureResident(client::Client& client,
                                           const std::string& device, int side,
                                           int requests) {
  std::vector<std::string> handles;
  const auto clean_up = absl::MakeCleanup([&] {
    for (const std::string& handle : handles) {
      client.DeleteTensor(handle).IgnoreError();
    }
  });
  for (int i = 0; i < 3; ++i) {
    ASSIGN_OR_RETURN(std::string handle, MakeTensor(client, device, side));
    handles.push_back(std::move(handle));
  }
  client::Product product;
  product.problem = Square(side);
  product.a = client::Operand::Tensor(handles[0]);
  product.b = client::Operand::Tensor(handles[1]);
  product.d = client::Destination::Tensor(handles[2]);
  product.device = device;
  std::vector<double> us, plan_us, execute_us;
  v1::Execution last;
  for (int i = 0; i < kWarmups + requests; ++i) {
    const absl::Time start = absl::Now();
    ASSIGN_OR_RETURN(client::Result result, client.Matmul(product));
    const double elapsed_us = MicrosSince(start);
    if (i < kWarmups) continue;
    us.push_back(elapsed_us);
    plan_us.push_back(result.execution.phases().plan_us());
    execute_us.push_back(result.execution.phases().execute_us());
    last = std::move(result.execution);
  }
  RoundTrips trips = Summarise(us);
  trips.plan_us = Percentile(plan_us, 0.5);
  trips.execute_us = Percentile(execute_us, 0.5);
  trips.execution = std::move(last);
  return trips;
}

absl::StatusOr<RoundTrips> MeasureInfo(client::Client& client, int requests) {
  std::vector<double> us;
  for (int i = 0; i < kWarmups + requests; ++i) {
    const absl::Time start = absl::Now();
    RETURN_IF_ERROR(client.GetStatistics().status());
    if (i >= kWarmups) us.push_back(MicrosSince(start));
  }
  return Summarise(us);
}

absl::StatusOr<Transfers> MeasureTransfers(client::Client& client,
                                           const std::string& device, int side,
                                           int transfers) {
  ASSIGN_OR_RETURN(const std::string handle, MakeTensor(client, device, side));
  const auto clean_up =
      absl::MakeCleanup([&] { client.DeleteTensor(handle).IgnoreError(); });
  std::string bytes(2 * static_cast<size_t>(side) * side, 'x');
  std::vector<double> up, down;
  for (int i = 0; i < transfers; ++i) {
    const auto gb_s = [&](absl::Time start) {
      return static_cast<double>(bytes.size()) / 1e3 / MicrosSince(start);
    };
    absl::Time start = absl::Now();
    RETURN_IF_ERROR(client.UploadTensor(handle, {}, bytes));
    up.push_back(gb_s(start));
    start = absl::Now();
    RETURN_IF_ERROR(client.DownloadTensor(handle, {}, absl::MakeSpan(bytes)));
    down.push_back(gb_s(start));
  }
  return Transfers{Percentile(up, 0.5), Percentile(down, 0.5)};
}

absl::StatusOr<std::vector<Compile>> MeasureCompiles(
    client::Client& client, const std::string& device) {
  std::vector<Compile> compiles;
  for (const v1::Problem& problem : CompiledProblems()) {
    // Once to learn the key, and again without the kernel.
    ASSIGN_OR_RETURN(std::vector<v1::Execution> prepared,
                     client.PrepareKernels({&problem, 1}, device));
    RETURN_IF_ERROR(client.EvictKernel(prepared[0].cubin_key()));
    const absl::Time start = absl::Now();
    ASSIGN_OR_RETURN(prepared, client.PrepareKernels({&problem, 1}, device));
    Compile compile;
    compile.prepare_us = MicrosSince(start);
    compile.kernel = prepared[0].kernel();
    if (prepared[0].cubin_source() != v1::CUBIN_SOURCE_COMPILED) {
      return absl::InternalError(compile.kernel + " was not compiled anew");
    }
    ASSIGN_OR_RETURN(const v1::KernelDescription description,
                     client.DescribeKernel(prepared[0].cubin_key()));
    compile.compile_ms = description.compile_ms();
    compiles.push_back(std::move(compile));
  }
  return compiles;
}

}  // namespace gemmd::latency
