// gemmctl matmul.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "clients/gemmctl/command.h"
#include "clients/gemmctl/convert.h"
#include "clients/gemmctl/operand.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {
namespace {

struct MatmulOptions {
  std::string a, b, c, d;
  v1::DataType type = v1::DATA_TYPE_UNSPECIFIED;
  v1::DataType d_type = v1::DATA_TYPE_UNSPECIFIED;
  v1::Order order = v1::ORDER_ROW_MAJOR;
  double alpha = 1;
  double beta = 0;
  std::string device;
  bool quiet = false;
  bool json = false;
};

// What no single option can tell.
absl::Status Check(const MatmulOptions& options) {
  if (options.beta != 0 && options.c.empty()) {
    return absl::InvalidArgumentError("--beta needs --c FILE");
  }
  const int from_stdin =
      (options.a == "-") + (options.b == "-") + (options.c == "-");
  if (from_stdin > 1) {
    return absl::InvalidArgumentError(
        "only one matrix can come from standard input");
  }
  return absl::OkStatus();
}

// Trouble with a file, or what the daemon says of a tensor.
int FailLoad(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? FailFile(status) : Fail(status);
}

void PrintExecution(const Matrix& d, const v1::Execution& execution) {
  const v1::Phases& phases = execution.phases();
  Show(
      stderr,
      "%d x %d %s on %s by %s (%s)\n"
      "us: queue %d, plan %d, compile %d, upload %d, execute %d, download %d\n",
      d.rows, d.columns, Name(d.type), execution.device(),
      execution.kernel().empty() ? "no kernel" : execution.kernel(),
      v1::CubinSource_Name(execution.cubin_source()), phases.queue_us(),
      phases.plan_us(), phases.compile_us(), phases.upload_us(),
      phases.execute_us(), phases.download_us());
}

v1::Problem ProblemOf(const MatmulOptions& options, const Matrix& a,
                      const Matrix& b) {
  const v1::DataType d_type =
      options.d_type == v1::DATA_TYPE_UNSPECIFIED ? a.type : options.d_type;
  v1::Problem problem;
  problem.set_m(a.rows);
  problem.set_n(b.columns);
  problem.set_k(a.columns);
  problem.set_a_type(a.type);
  problem.set_b_type(b.type);
  problem.set_c_type(d_type);
  problem.set_d_type(d_type);
  problem.set_a_order(a.order);
  problem.set_b_order(b.order);
  problem.set_d_order(options.order);
  problem.set_alpha(static_cast<float>(options.alpha));
  problem.set_beta(static_cast<float>(options.beta));
  return problem;
}

absl::Status CheckOperands(const MatmulOptions& options, const Matrix& a,
                           const Matrix& b) {
  if (a.type == v1::DATA_TYPE_F32 &&
      options.type == v1::DATA_TYPE_UNSPECIFIED) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.a, " holds f32: --dtype bf16 or f16 converts it"));
  }
  if (a.columns != b.rows) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s has %d columns but %s has %d rows", options.a,
                        a.columns, options.b, b.rows));
  }
  return absl::OkStatus();
}

int Run(client::Client& client, const MatmulOptions& options) {
  if (const absl::Status wrong = Check(options); !wrong.ok()) {
    return FailUsage(wrong);
  }
  GEMMCTL_ASSIGN(const NamedMatrix a, Load(client, options.a, options.type),
                 FailLoad);
  GEMMCTL_ASSIGN(const NamedMatrix b, Load(client, options.b, options.type),
                 FailLoad);
  if (const absl::Status wrong = CheckOperands(options, a.matrix, b.matrix);
      !wrong.ok()) {
    return FailUsage(wrong);
  }
  client::Product product;
  v1::Problem& problem = product.problem;
  problem = ProblemOf(options, a.matrix, b.matrix);
  NamedMatrix c;
  if (options.beta != 0) {
    GEMMCTL_ASSIGN(c, Load(client, options.c, problem.d_type()), FailLoad);
    if (c.matrix.rows != problem.m() || c.matrix.columns != problem.n()) {
      return FailUsage(absl::InvalidArgumentError(absl::StrFormat(
          "%s is %d x %d; the product is %d x %d", options.c, c.matrix.rows,
          c.matrix.columns, problem.m(), problem.n())));
    }
    if (c.tensor.empty()) {
      c.matrix = Reorder(std::move(c.matrix), options.order);
    }
    product.c = c.operand();
  }
  product.a = a.operand();
  product.b = b.operand();
  product.device = options.device;
  const auto handle = TensorHandle(options.d);
  if (handle) product.d = client::Destination::Tensor(*handle);

  GEMMCTL_ASSIGN(client::Result result, client.Matmul(product), Fail);
  const Matrix d = {problem.d_type(), options.order, problem.m(), problem.n(),
                    std::move(result.d)};
  if (!handle) {
    if (absl::Status written = WriteNpy(options.d, d); !written.ok()) {
      return FailFile(written);
    }
  }
  // Where D is on stdout, nothing else is.
  if (options.json) {
    PrintJson(result.execution, options.d == "-" ? stderr : stdout);
  } else if (!options.quiet) {
    PrintExecution(d, result.execution);
  }
  return cli::kExitOk;
}

}  // namespace

void AddMatmul(cli::Command& program) {
  cli::Command& command =
      program.Subcommand("matmul", "D = alpha * A B + beta * C");
  const auto o = std::make_shared<MatmulOptions>();
  command.Text("A", o->a, "A matrix: FILE.npy, - or tensor:HANDLE.");
  command.Text("B", o->b, "Likewise.");
  command.Text("-o,--output D", o->d, "Where the result goes; likewise.");
  command.Require("--output");
  TypeOption(command, "--dtype TYPE", o->type,
             "bf16 or f16: converts f4 files of A and B.");
  TypeOption(command, "--d-type TYPE", o->d_type,
             "Of D: bf16, f16 or f32. Default: that of A.");
  OrderOption(command, "--order ORDER", o->order, "Of D: row or column.");
  command.Number("--alpha X", o->alpha, "The factor of A B.");
  command.Number("--beta X", o->beta, "The factor of C.");
  command.Text("--c C", o->c, "Required when beta is not 0.");
  command.Text("--device NAME", o->device,
               "Such as cuda:0. Default: the daemon's choice.");
  command.Switch("--quiet", o->quiet, "Print nothing about the execution.");
  command.Switch("--json", o->json, "Print the execution as JSON.");
  command.Details(
      "Files are of C or Fortran order, f4, f2, or bfloat16 as V2 (<u2 is read "
      "as its\nbits with --dtype bf16); \"-\" is standard input or output. "
      "bf16 results are\nwritten as V2: in numpy, "
      "np.load(D).view(ml_dtypes.bfloat16).");
  RunWithClient(command,
                [o](client::Client& client) { return Run(client, *o); });
}

}  // namespace gemmd::gemmctl
