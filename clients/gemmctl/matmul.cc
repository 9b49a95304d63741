// gemmctl matmul.
#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/gemmctl/command.h"
#include "clients/gemmctl/convert.h"
#include "clients/gemmctl/operand.h"
#include "clients/gemmctl/problem_options.h"
#include "clients/gemmctl/values.h"
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
  // Of the operand that is a file of sparse lines.
  v1::Order sparse = v1::ORDER_UNSPECIFIED;
  double alpha = 1;
  double beta = 0;
  ValueNames values;
  std::string auxiliary, amax;
  ProblemOptions problem;
  std::string device;
  int64_t stream_bytes = client::Options().stream_bytes;
  bool quiet = false;
  bool json = false;
};

// What no single option can tell.
absl::Status Check(const MatmulOptions& options) {
  if (options.beta != 0 && options.c.empty()) {
    return absl::InvalidArgumentError("--beta needs --c FILE");
  }
  const auto of_standard = [](std::initializer_list<std::string> names) {
    return std::count(names.begin(), names.end(), "-");
  };
  const ValueNames& values = options.values;
  if (of_standard({options.a, options.b, options.c, values.bias, values.a_scale,
                   values.b_scale, values.d_scale}) > 1) {
    return absl::InvalidArgumentError(
        "only one file can come from standard input");
  }
  if (of_standard({options.d, options.auxiliary, options.amax}) > 1) {
    return absl::InvalidArgumentError(
        "only one result can go to standard output");
  }
  return absl::OkStatus();
}

bool UsesStandardOutput(const MatmulOptions& options) {
  return options.d == "-" || options.auxiliary == "-" || options.amax == "-";
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

// Writes D where it is here, and the other results that were asked for.
absl::Status Save(const MatmulOptions& options, Matrix shape,
                  client::Result result) {
  if (!TensorHandle(options.d)) {
    shape.bytes = std::move(result.d);
    RETURN_IF_ERROR(WriteNpy(options.d, shape));
  }
  if (!options.auxiliary.empty()) {
    shape.bytes = std::move(result.auxiliary);
    RETURN_IF_ERROR(WriteNpy(options.auxiliary, shape));
  }
  if (options.amax.empty()) return absl::OkStatus();
  const float amax = *result.amax;
  Matrix one = {v1::DATA_TYPE_F32, v1::ORDER_ROW_MAJOR, 1, 1, {}, {}};
  one.bytes.assign(reinterpret_cast<const char*>(&amax), sizeof amax);
  return WriteNpy(options.amax, one);
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

int Run(client::Client& client, const MatmulOptions& options) {
  if (const absl::Status wrong = Check(options); !wrong.ok()) {
    return FailUsage(wrong);
  }
  GEMMCTL_ASSIGN(const NamedMatrix a,
                 Load(client, options.a,
                      {.type = options.a_type,
                       .sparse = SparseOf(options, v1::ORDER_ROW_MAJOR),
                       .order_of_bits = v1::ORDER_ROW_MAJOR}),
                 FailLoad);
  GEMMCTL_ASSIGN(const NamedMatrix b,
                 Load(client, options.b,
                      {.type = options.b_type,
                       .sparse = SparseOf(options, v1::ORDER_COLUMN_MAJOR),
                       .order_of_bits = v1::ORDER_COLUMN_MAJOR}),
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
  GEMMCTL_ASSIGN(const Values values, ReadValues(options.values, problem),
                 FailLoad);
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
  product.bias = client::Operand::Bytes(values.bias.bytes);
  product.a_scale = client::Operand::Bytes(values.a_scale.bytes);
  product.b_scale = client::Operand::Bytes(values.b_scale.bytes);
  product.d_scale = client::Operand::Bytes(values.d_scale.bytes);
  product.device = options.device;
  product.stream_bytes = options.stream_bytes;
  if (const auto handle = TensorHandle(options.d)) {
    product.d = client::Destination::Tensor(*handle);
  }
  GEMMCTL_ASSIGN(client::Result result, client.Matmul(product), Fail);
  const v1::Execution execution = result.execution;
  if (absl::Status saved = Save(options, d, std::move(result)); !saved.ok()) {
    return FailFile(saved);
  }
  // Where a result is on stdout, nothing else is.
  if (options.json) {
    PrintJson(execution, UsesStandardOutput(options) ? stderr : stdout);
  } else if (!options.quiet) {
    PrintExecution(d, execution);
  }
  return cli::kExitOk;
}

}  // namespace

void AddMatmul(cli::Command& program) {
  cli::Command& command = program.Subcommand(
      "matmul", "D = alpha * A B + beta * C, bias, activation");
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
      "Of A and B: converts f4 files, names the type of V1, i1, u1 and u2 "
      "files.");
  TypeOption(command, "--b-type TYPE", o->b_type, "Of B, where it is another.");
  TypeOption(command, "--d-type TYPE", o->d_type,
             "Of D. Default: that of A; s32 of integers and bits.");
  SideOption(command, "--sparse SIDE", o->sparse,
             "a or b: which one is a file of gemmctl compress, of --dtype.");
  OrderOption(command, "--order ORDER", o->order, "Of D: row or column.");
  command.Number("--alpha X", o->alpha, "The factor of A B.");
  command.Number("--beta X", o->beta, "The factor of C.");
  command.Text("--c C", o->c, "Required when beta is not 0.");
  o->problem.Declare(command);
  command.Text("--bias FILE", o->values.bias,
               "Added to columns, (n,), or rows, (m, 1).");
  command.Text("--a-scale X", o->values.a_scale,
               "Factors of A: a number, or a FILE of (m,), or of blocks.");
  command.Text("--b-scale X", o->values.b_scale,
               "Of B: a number, or a FILE of (n,), or of blocks.");
  command.Text("--d-scale,--out-scale X", o->values.d_scale,
               "Factor of D before it is rounded.");
  command.Text("--aux,--pre-activation FILE", o->auxiliary,
               "Where what the activation is applied to goes.");
  command.Text("--amax FILE", o->amax,
               "Where the greatest magnitude before --d-scale goes.");
  command.Text("--device NAME", o->device,
               "Such as cuda:0. Default: the daemon's choice.");
  command.Bytes("--stream-above BYTES", o->stream_bytes, {0},
                "Operands and results of more bytes travel in chunks.");
  command.Switch("--quiet", o->quiet, "Print nothing about the execution.");
  command.Switch("--json", o->json, "Print the execution as JSON.");
  command.Details(
      "What goes together is listed by gemmctl capabilities. Files hold f4, "
      "f2, i4, i1,\n"
      "u1, b1 (bits, packed on the way), or bfloat16 as V2; V1 is e4m3 or "
      "e5m2, as\n"
      "--dtype says, and so are u1 files then, u2 files bf16. With --dtype or "
      "--b-type\n"
      "s4, i1 files hold elements of four bits, -8 to 7, a byte each, and with "
      "u4 u1\n"
      "files 0 to 15. Dimensions before the last two are a batch; one matrix "
      "may serve\n"
      "all of the other's. C is of D's type or f4. \"-\" is standard input or "
      "output. In\n"
      "numpy, np.load(D).view(ml_dtypes.bfloat16) reads results that are "
      "stored as V2\n"
      "(bf16) or V1 (e4m3, e5m2). A tensor may be sparse or quantized, which "
      "no file\n"
      "says.\n\n"
      "x = a_scale * b_scale * alpha * A B + beta * C + bias    (--aux)\n"
      "D = d_scale * act(x)    (--amax: greatest |act(x)|)\n\n"
      "The values are f4 files; blocks are 1 x 128 of A, (m, k/128), and 128 x "
      "128 of\nB, (k/128, n/128), both or neither.");
  RunWithClient(command,
                [o](client::Client& client) { return Run(client, *o); });
}

}  // namespace gemmd::gemmctl
