// gemmctl matmul.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/gemmctl/command.h"
#include "clients/gemmctl/convert.h"
#include "clients/gemmctl/operand.h"
#include "clients/gemmctl/problem_options.h"
#include "jit/base/status.h"
#include "proto/convert/problem.h"

namespace gemmd::gemmctl {
namespace {

struct MatmulOptions {
  std::string a, b, c, d;
  v1::DataType a_type = v1::DATA_TYPE_UNSPECIFIED;
  v1::DataType b_type = v1::DATA_TYPE_UNSPECIFIED;
  v1::DataType d_type = v1::DATA_TYPE_UNSPECIFIED;
  v1::Order order = v1::ORDER_ROW_MAJOR;
  double alpha = 1;
  double beta = 0;
  ProblemOptions problem;
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
      "%s %s on %s by %s (%s)\n"
      "sums: %s, parts of k: %d\n"
      "us: queue %d, plan %d, compile %d, upload %d, execute %d, download %d\n",
      d.shape(), Name(d.type), execution.device(),
      execution.kernel().empty() ? "no kernel" : execution.kernel(),
      v1::CubinSource_Name(execution.cubin_source()),
      v1::SumArithmetic_Name(execution.arithmetic()), execution.splits(),
      phases.queue_us(), phases.plan_us(), phases.compile_us(),
      phases.upload_us(), phases.execute_us(), phases.download_us());
}

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
  ASSIGN_OR_RETURN(jit::Problem problem, MakeProblem({.a = a.type,
                                                      .b = b.type,
                                                      .d = options.d_type,
                                                      .a_order = a.order,
                                                      .b_order = b.order,
                                                      .d_order = options.order},
                                                     options.problem));
  problem.m = a.rows;
  problem.n = b.columns;
  problem.k = a.columns;
  problem.alpha = static_cast<float>(options.alpha);
  problem.beta = static_cast<float>(options.beta);
  return problem;
}

int Run(client::Client& client, const MatmulOptions& options) {
  if (const absl::Status wrong = Check(options); !wrong.ok()) {
    return FailUsage(wrong);
  }
  GEMMCTL_ASSIGN(
      const NamedMatrix a,
      Load(client, options.a,
           {.type = options.a_type, .order_of_bits = v1::ORDER_ROW_MAJOR}),
      FailLoad);
  GEMMCTL_ASSIGN(
      const NamedMatrix b,
      Load(client, options.b,
           {.type = options.b_type, .order_of_bits = v1::ORDER_COLUMN_MAJOR}),
      FailLoad);
  GEMMCTL_ASSIGN(jit::Problem problem, ProblemOf(options, a.matrix, b.matrix),
                 FailUsage);
  GEMMCTL_ASSIGN(const std::vector<int64_t> batch,
                 BatchOf(options, a.matrix, b.matrix), FailUsage);
  Matrix d = {convert::ToWire(problem.d_type),
              options.order,
              problem.m,
              problem.n,
              {},
              batch};
  problem.batch = d.count();
  client::Product product;
  NamedMatrix c;
  if (options.beta != 0) {
    GEMMCTL_ASSIGN(c,
                   Load(client, options.c,
                        {.named = convert::ToWire(problem.d_type),
                         .order = options.order}),
                   FailLoad);
    if (c.matrix.shape() != d.shape()) {
      return FailUsage(absl::InvalidArgumentError(
          absl::StrFormat("%s is %s; the product is %s", options.c,
                          c.matrix.shape(), d.shape())));
    }
    GEMMCTL_ASSIGN(problem.c_type,
                   convert::ToDataType(c.matrix.type, "C's type"), FailUsage);
    product.c = c.operand();
  }
  // What this build has kernels for, the daemon says.
  if (const absl::Status wrong = jit::Validate(problem); !wrong.ok()) {
    return FailUsage(wrong);
  }
  product.problem = convert::ToWire(problem);
  product.a = a.operand(a.matrix.count() != d.count());
  product.b = b.operand(b.matrix.count() != d.count());
  product.device = options.device;
  const auto handle = TensorHandle(options.d);
  if (handle) product.d = client::Destination::Tensor(*handle);

  GEMMCTL_ASSIGN(client::Result result, client.Matmul(product), Fail);
  if (!handle) {
    d.bytes = std::move(result.d);
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
  command.Parsed(
      "--dtype TYPE", "",
      [o](const std::string& text) {
        ASSIGN_OR_RETURN(o->a_type, ParseDataType(text));
        o->b_type = o->a_type;
        return absl::OkStatus();
      },
      "Of A and B: converts f4 files, names the type of V1, u1 and u2 files.");
  TypeOption(command, "--b-type TYPE", o->b_type, "Of B, where it is another.");
  TypeOption(command, "--d-type TYPE", o->d_type,
             "Of D. Default: that of A; s32 of integers and bits.");
  OrderOption(command, "--order ORDER", o->order, "Of D: row or column.");
  command.Number("--alpha X", o->alpha, "The factor of A B.");
  command.Number("--beta X", o->beta, "The factor of C.");
  command.Text("--c C", o->c, "Required when beta is not 0.");
  o->problem.Declare(command);
  command.Text("--device NAME", o->device,
               "Such as cuda:0. Default: the daemon's choice.");
  command.Switch("--quiet", o->quiet, "Print nothing about the execution.");
  command.Switch("--json", o->json, "Print the execution as JSON.");
  command.Details(
      "What goes together is listed by gemmctl capabilities. Files hold f4, "
      "f2, i4, i1,\nu1, b1 (bits, packed on the way), or bfloat16 as V2; V1 is "
      "e4m3 or e5m2, as\n--dtype says, and so are u1 files then, u2 files "
      "bf16. "
      "Dimensions before the last\ntwo are a batch; one matrix may serve all "
      "of the other's. C is of D's type or f4.\n\"-\" is standard input or "
      "output. In numpy, np.load(D).view(ml_dtypes.bfloat16)\nreads results "
      "that are stored as V2 (bf16) or V1 (e4m3, e5m2).");
  RunWithClient(command,
                [o](client::Client& client) { return Run(client, *o); });
}

}  // namespace gemmd::gemmctl
