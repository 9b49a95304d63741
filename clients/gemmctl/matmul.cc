// gemmctl matmul.
#include <cstdio>
#include <memory>
#include <utility>

#include "clients/gemmctl/command.h"
#include "clients/gemmctl/convert.h"
#include "clients/gemmctl/matmul_product.h"

namespace gemmd::gemmctl {
namespace {

struct Options {
  MatmulOptions product;
  int64_t stream_bytes = client::Options().stream_bytes;
  bool quiet = false;
  bool json = false;
};

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

int Run(client::Client& client, const Options& options) {
  if (const absl::Status wrong = CheckFiles({&options.product, 1});
      !wrong.ok()) {
    return FailUsage(wrong);
  }
  MatmulProduct matmul(options.product);
  if (const auto failure = matmul.Load(client)) {
    return failure->say(failure->status);
  }
  client::Product product = matmul.product();
  product.stream_bytes = options.stream_bytes;
  GEMMCTL_ASSIGN(client::Result result, client.Matmul(product), Fail);
  const v1::Execution execution = result.execution;
  Outputs outputs;
  absl::Status saved = matmul.Save(std::move(result), outputs);
  if (saved.ok()) saved = outputs.Keep();
  if (!saved.ok()) return FailFile(saved);
  // Where a result is on stdout, nothing else is.
  if (options.json) {
    PrintJson(execution, UsesStandardOutput(options.product) ? stderr : stdout);
  } else if (!options.quiet) {
    PrintExecution(matmul.d(), execution);
  }
  return cli::kExitOk;
}

}  // namespace

void AddMatmul(cli::Command& program) {
  cli::Command& command = program.Subcommand(
      "matmul", "D = alpha * A B + beta * C, bias, activation");
  const auto o = std::make_shared<Options>();
  DeclareOperands(command, o->product);
  DeclareProduct(command, o->product);
  command.Bytes("--stream-above BYTES", o->stream_bytes, {0},
                "Operands and results of more bytes travel in chunks.");
  command.Switch("--quiet", o->quiet, "Print nothing about the execution.");
  command.Switch("--json", o->json, "Print the execution as JSON.");
  command.Details(kProductDetails);
  RunWithClient(command,
                [o](client::Client& client) { return Run(client, *o); });
}

}  // namespace gemmd::gemmctl
