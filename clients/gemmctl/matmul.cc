// gemmctl matmul.
#include <cstdio>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/gemmctl/command.h"
#include "clients/gemmctl/convert.h"
#include "clients/gemmctl/operand.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {
namespace {

// Trouble with a file and trouble with the daemon end in different codes.
int FailLoad(const absl::Status& status) {
  return absl::IsUnavailable(status) ? Fail(status) : FailFile(status);
}

absl::StatusOr<v1::DataType> OptionalType(const Arguments& arguments,
                                          absl::string_view flag) {
  if (!arguments.Has(flag)) return v1::DATA_TYPE_UNSPECIFIED;
  return ParseDataType(arguments.Get(flag));
}

void PrintExecution(const Matrix& d, const v1::Execution& execution) {
  const v1::Phases& phases = execution.phases();
  absl::FPrintF(
      stderr,
      "%d x %d %s on %s by %s (%s)\n"
      "us: queue %d, plan %d, compile %d, upload %d, execute %d, download %d\n",
      d.rows, d.columns, Name(d.type), execution.device(),
      execution.kernel().empty() ? "no kernel" : execution.kernel(),
      v1::CubinSource_Name(execution.cubin_source()), phases.queue_us(),
      phases.plan_us(), phases.compile_us(), phases.upload_us(),
      phases.execute_us(), phases.download_us());
}

int Run(client::Client& client, const Arguments& arguments) {
  GEMMCTL_ASSIGN(const v1::DataType type, OptionalType(arguments, "--dtype"),
                 FailUsage);
  GEMMCTL_ASSIGN(v1::DataType d_type, OptionalType(arguments, "--d-type"),
                 FailUsage);
  GEMMCTL_ASSIGN(const v1::Order order, ParseOrder(arguments.Get("--order")),
                 FailUsage);
  GEMMCTL_ASSIGN(const double alpha, arguments.GetNumber("--alpha"), FailUsage);
  GEMMCTL_ASSIGN(const double beta, arguments.GetNumber("--beta"), FailUsage);
  if (!arguments.Has("-o")) {
    return FailUsage(absl::InvalidArgumentError("-o FILE is required"));
  }
  if (beta != 0 && !arguments.Has("--c")) {
    return FailUsage(absl::InvalidArgumentError("--beta needs --c FILE"));
  }
  GEMMCTL_ASSIGN(const NamedMatrix a,
                 Load(client, arguments.positional()[0], type), FailLoad);
  GEMMCTL_ASSIGN(const NamedMatrix b,
                 Load(client, arguments.positional()[1], type), FailLoad);
  if (a.matrix.type == v1::DATA_TYPE_F32 && !arguments.Has("--dtype")) {
    return FailUsage(absl::InvalidArgumentError(
        absl::StrCat(arguments.positional()[0],
                     " holds f32: --dtype bf16 or f16 converts it")));
  }
  if (a.matrix.columns != b.matrix.rows) {
    return FailUsage(absl::InvalidArgumentError(absl::StrFormat(
        "%s has %d columns but %s has %d rows", arguments.positional()[0],
        a.matrix.columns, arguments.positional()[1], b.matrix.rows)));
  }
  if (d_type == v1::DATA_TYPE_UNSPECIFIED) d_type = a.matrix.type;

  client::Product product;
  NamedMatrix c;
  if (beta != 0) {
    GEMMCTL_ASSIGN(c, Load(client, arguments.Get("--c"), d_type), FailLoad);
    if (c.matrix.rows != a.matrix.rows ||
        c.matrix.columns != b.matrix.columns) {
      return FailUsage(absl::InvalidArgumentError(absl::StrFormat(
          "%s is %d x %d; the product is %d x %d", arguments.Get("--c"),
          c.matrix.rows, c.matrix.columns, a.matrix.rows, b.matrix.columns)));
    }
    if (c.tensor.empty()) c.matrix = Reorder(std::move(c.matrix), order);
    product.c = c.operand();
  }
  v1::Problem& problem = product.problem;
  problem.set_m(a.matrix.rows);
  problem.set_n(b.matrix.columns);
  problem.set_k(a.matrix.columns);
  problem.set_a_type(a.matrix.type);
  problem.set_b_type(b.matrix.type);
  problem.set_c_type(d_type);
  problem.set_d_type(d_type);
  problem.set_a_order(a.matrix.order);
  problem.set_b_order(b.matrix.order);
  problem.set_d_order(order);
  problem.set_alpha(static_cast<float>(alpha));
  problem.set_beta(static_cast<float>(beta));
  product.a = a.operand();
  product.b = b.operand();
  product.device = arguments.Get("--device");
  const auto handle = TensorHandle(arguments.Get("-o"));
  if (handle) product.d = client::Destination::Tensor(*handle);

  GEMMCTL_ASSIGN(client::Result result, client.Matmul(product), Fail);
  Matrix d = {d_type, order, problem.m(), problem.n(), std::move(result.d)};
  if (!handle) {
    if (absl::Status written = WriteNpy(arguments.Get("-o"), d);
        !written.ok()) {
      return FailFile(written);
    }
  }
  if (!arguments.Has("--quiet")) PrintExecution(d, result.execution);
  return kOk;
}

}  // namespace

Command MatmulCommand() {
  return {
      "matmul",
      "A B -o D",
      "D = alpha * A B + beta * C\n\n"
      "Each matrix is a .npy file (C or Fortran order; f4, f2, or bfloat16\n"
      "as V2 or <u2) or tensor:HANDLE. bf16 results are written as V2: in\n"
      "numpy, np.load(D).view(ml_dtypes.bfloat16).",
      {{"-o", "D", "where the result goes (required)", ""},
       {"--dtype", "TYPE", "bf16 or f16: converts f4 files of A and B", ""},
       {"--d-type", "TYPE", "bf16, f16 or f32; default: that of A", ""},
       {"--order", "ORDER", "of D: row or column", "row"},
       {"--alpha", "X", "", "1"},
       {"--beta", "X", "", "0"},
       {"--c", "C", "required when beta is not 0", ""},
       {"--device", "NAME", "such as cuda:0; default: the daemon's choice", ""},
       {"--quiet", "", "print nothing about the execution", ""}},
      2,
      2,
      Run};
}

}  // namespace gemmd::gemmctl
