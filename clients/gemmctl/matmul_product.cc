#include "clients/gemmctl/matmul_product.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/gemmctl/command.h"
#include "clients/gemmctl/convert.h"
#include "jit/base/status.h"
#include "proto/convert/problem.h"

namespace gemmd::gemmctl {
namespace {

// Trouble with a file, or what the daemon says of a tensor.
Failure OfLoad(const absl::Status& status) {
  return {status, absl::IsInvalidArgument(status) ? FailFile : Fail};
}
Failure OfUsage(const absl::Status& status) { return {status, FailUsage}; }

// Dimensions before the matrices of the result: those of both, of which one may
// be a single matrix.
absl::StatusOr<std::vector<int64_t>> BatchOf(const MatmulOptions& options,
                                             const Matrix& a, const Matrix& b) {
  if (a.batch == b.batch) return a.batch;
  const auto is_one = [](const Matrix& matrix, const Matrix& other) {
    return matrix.count() == 1 && matrix.batch.size() <= other.batch.size();
  };
  if (is_one(b, a)) return a.batch;
  if (is_one(a, b)) return b.batch;
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s is %s and %s is %s: their batches differ; allowed: equal ones, or "
      "one matrix for all of the other's",
      options.a, a.shape(), options.b, b.shape()));
}

// Without C. INVALID_ARGUMENT or UNIMPLEMENTED saying what is allowed.
absl::StatusOr<jit::Problem> ProblemOf(const MatmulOptions& options,
                                       const Matrix& a, const Matrix& b) {
  if (a.columns != b.rows) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s has %d columns but %s has %d rows", options.a,
                        a.columns, options.b, b.rows));
  }
  if (a.quantization && b.quantization) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.a, " and ", options.b, " are quantized; allowed: one of them"));
  }
  ASSIGN_OR_RETURN(
      jit::Problem problem,
      MakeProblem(
          {.a = a.type,
           .b = b.type,
           .d = options.d_type,
           .a_order = a.order,
           .b_order = b.order,
           .d_order = options.order,
           .a_sparse = a.sparse,
           .b_sparse = b.sparse,
           .quantization = a.quantization ? a.quantization : b.quantization},
          options.problem));
  problem.m = a.rows;
  problem.n = b.columns;
  problem.k = a.columns;
  problem.alpha = static_cast<float>(options.alpha);
  problem.beta = static_cast<float>(options.beta);
  problem.epilogue.writes_auxiliary = !options.auxiliary.empty();
  problem.epilogue.measures_amax = !options.amax.empty();
  return problem;
}

// The order of sparse lines, if that operand is made of them.
v1::Order SparseOf(const MatmulOptions& options, v1::Order order) {
  return options.sparse == order ? order : v1::ORDER_UNSPECIFIED;
}

}  // namespace

std::optional<Failure> MatmulProduct::Load(client::Client& client) {
  if (const absl::Status wrong = CheckProduct(options_); !wrong.ok()) {
    return OfUsage(wrong);
  }
  GEMMCTL_ASSIGN(
      a_,
      gemmctl::Load(client, options_.a,
                    {.type = options_.a_type,
                     .sparse = SparseOf(options_, v1::ORDER_ROW_MAJOR),
                     .order_of_bits = v1::ORDER_ROW_MAJOR}),
      OfLoad);
  GEMMCTL_ASSIGN(
      b_,
      gemmctl::Load(client, options_.b,
                    {.type = options_.b_type,
                     .sparse = SparseOf(options_, v1::ORDER_COLUMN_MAJOR),
                     .order_of_bits = v1::ORDER_COLUMN_MAJOR}),
      OfLoad);
  GEMMCTL_ASSIGN(jit::Problem problem,
                 ProblemOf(options_, a_.matrix, b_.matrix), OfUsage);
  GEMMCTL_ASSIGN(const std::vector<int64_t> batch,
                 BatchOf(options_, a_.matrix, b_.matrix), OfUsage);
  d_ = {convert::ToWire(problem.d_type),
        options_.order,
        problem.m,
        problem.n,
        {},
        batch};
  problem.batch = d_.count();
  GEMMCTL_ASSIGN(values_, ReadValues(options_.values, problem), OfLoad);
  if (options_.beta != 0) {
    if (auto failure = LoadC(client, problem)) return failure;
  }
  // What this build has kernels for, the daemon says.
  if (const absl::Status wrong = jit::Validate(problem); !wrong.ok()) {
    return OfUsage(wrong);
  }
  problem_ = convert::ToWire(problem);
  return std::nullopt;
}

std::optional<Failure> MatmulProduct::LoadC(client::Client& client,
                                            jit::Problem& problem) {
  GEMMCTL_ASSIGN(c_,
                 gemmctl::Load(client, options_.c,
                               {.named = d_.type, .order = options_.order}),
                 OfLoad);
  if (c_.matrix.shape() != d_.shape()) {
    return OfUsage(absl::InvalidArgumentError(
        absl::StrFormat("%s is %s; the product is %s", options_.c,
                        c_.matrix.shape(), d_.shape())));
  }
  GEMMCTL_ASSIGN(problem.c_type,
                 convert::ToDataType(c_.matrix.type, "C's type"), OfUsage);
  return std::nullopt;
}

client::Product MatmulProduct::product() const {
  client::Product product;
  product.problem = problem_;
  product.a = a_.operand(a_.matrix.count() != d_.count());
  product.b = b_.operand(b_.matrix.count() != d_.count());
  if (options_.beta != 0) product.c = c_.operand();
  product.bias = client::Operand::Bytes(values_.bias.bytes);
  product.a_scale = client::Operand::Bytes(values_.a_scale.bytes);
  product.b_scale = client::Operand::Bytes(values_.b_scale.bytes);
  product.d_scale = client::Operand::Bytes(values_.d_scale.bytes);
  product.device = options_.device;
  if (const auto handle = TensorHandle(options_.d)) {
    product.d = client::Destination::Tensor(*handle);
  }
  if (const auto handle = TensorHandle(options_.auxiliary)) {
    product.auxiliary = client::Destination::Tensor(*handle);
  }
  return product;
}

absl::Status MatmulProduct::Save(client::Result result,
                                 Outputs& outputs) const {
  const auto save = [&](const std::string& name, std::string& bytes) {
    if (name.empty() || TensorHandle(name)) return absl::OkStatus();
    Matrix matrix = d_;
    matrix.bytes = std::move(bytes);
    return outputs.Write(name, matrix);
  };
  RETURN_IF_ERROR(save(options_.d, result.d));
  RETURN_IF_ERROR(save(options_.auxiliary, result.auxiliary));
  if (options_.amax.empty()) return absl::OkStatus();
  const float amax = *result.amax;
  Matrix one = {v1::DATA_TYPE_F32, v1::ORDER_ROW_MAJOR, 1, 1, {}, {}};
  one.bytes.assign(reinterpret_cast<const char*>(&amax), sizeof amax);
  return outputs.Write(options_.amax, one);
}

}  // namespace gemmd::gemmctl
