// A product whose operands and results travel by several connections: they are
// tensors for the time of the call.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "clients/cpp/client.h"
#include "clients/cpp/matmul_header.h"
#include "jit/base/status.h"
#include "jit/base/steady_time.h"

namespace gemmd::client {
namespace {

// Less goes with the product: to make a tensor of it takes two calls.
constexpr uint64_t kLeastBytes = 1 << 20;
// For the daemon to forget the tensors when the time of the call has passed.
constexpr absl::Duration kForgetting = absl::Seconds(1);

// How bytes of the caller lie.
v1::Layout LayoutOf(v1::Order order, int64_t leading_dimension) {
  v1::Layout layout;
  layout.set_order(order);
  layout.set_leading_dimension(leading_dimension);
  return layout;
}

}  // namespace

absl::StatusOr<std::optional<Result>> Client::MatmulStriped(
    const Product& product, int connections) {
  const v1::Problem& problem = product.problem;
  // No tensor holds that, and a stream brings it beside D.
  if (problem.epilogue().auxiliary()) return std::nullopt;
  if (std::min({problem.m(), problem.n(), problem.k(), BatchOf(problem)}) < 1) {
    return std::nullopt;
  }
  const absl::Time end = EndOf(product.timeout);
  Product resident = product;
  resident.striping = {.connections = 1};
  resident.stream_bytes = std::numeric_limits<uint64_t>::max();

  std::vector<std::string> handles;
  const absl::Cleanup forget = [&] {
    // What is not forgotten goes with the connection.
    const absl::Time until = std::max(end, jit::SteadyNow() + kForgetting);
    for (const std::string& handle : handles) {
      Delete(handle, until).IgnoreError();
    }
  };
  // What the daemon refuses here is refused, in the words of a product, or
  // done, by the stream that is tried then.
  const auto create = [&](v1::CreateTensorRequest request) {
    request.set_lifetime(v1::CreateTensorRequest::LIFETIME_CONNECTION);
    request.set_device(resident.device);
    absl::StatusOr<v1::TensorInfo> info = Create(request, end);
    if (!info.ok()) return false;
    resident.device = info->device();
    handles.push_back(info->handle());
    return true;
  };

  const auto inputs = Inputs(problem);
  for (const Input& input : inputs) {
    const Operand& operand = product.*input.operand;
    if (operand.tensor.empty() || !resident.device.empty()) continue;
    const absl::StatusOr<v1::TensorInfo> info = Describe(operand.tensor, end);
    if (!info.ok()) return std::nullopt;
    resident.device = info->device();
  }
  for (const Input& input : inputs) {
    const Operand& operand = product.*input.operand;
    if (!IsInline(operand) || !IsMatrix(input) ||
        operand.bytes.size() < kLeastBytes) {
      continue;
    }
    const v1::CreateTensorRequest matrix = AsTensor(problem, input, operand);
    // Gaps between matrices are for streams, and so is one C of all products.
    if (operand.batch_stride.value_or(0) != 0) return std::nullopt;
    if (operand.batch_stride && matrix.count() != 1) return std::nullopt;
    if (!create(matrix)) return std::nullopt;
    const absl::Status sent =
        Upload(handles.back(), LayoutOf(input.order, operand.leading_dimension),
               operand.bytes, connections, end);
    if (absl::IsResourceExhausted(sent)) return std::nullopt;
    RETURN_IF_ERROR(sent);
    resident.*input.operand = Operand::Tensor(handles.back());
  }

  const bool returns_d =
      IsReturned(product.d) && ResultBytes(problem) >= kLeastBytes;
  if (returns_d) {
    v1::CreateTensorRequest d;
    d.set_dtype(ResultType(problem));
    d.set_order(problem.d_order());
    d.set_rows(problem.m());
    d.set_columns(problem.n());
    d.set_count(BatchOf(problem));
    if (!create(std::move(d))) return std::nullopt;
    resident.d = {.tensor = handles.back(), .name = product.d.name};
  }

  resident.timeout = std::max(end - jit::SteadyNow(), absl::Nanoseconds(1));
  ASSIGN_OR_RETURN(Result result, Matmul(resident));
  if (!returns_d) return result;
  absl::Span<char> bytes = product.d.bytes;
  if (bytes.data() == nullptr) {
    result.d.resize(ResultBytes(problem));
    bytes = absl::MakeSpan(result.d.data(), result.d.size());
  }
  RETURN_IF_ERROR(
      Download(resident.d.tensor,
               LayoutOf(problem.d_order(), product.d.leading_dimension), bytes,
               connections, end));
  return result;
}

}  // namespace gemmd::client
