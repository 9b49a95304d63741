// gemm-warmup: prepares, inspects and looks after a kernel cache.
#include <memory>

#include "clients/cli/command_line.h"
#include "clients/warmup/command.h"
#include "jit/compile/compile_worker.h"

namespace gemmd::warmup {
namespace {

void Add(cli::Program& program, const Command& command) {
  cli::Command& subcommand = program.Subcommand(command.name, command.summary);
  const auto flags = std::make_shared<Flags>();
  Flags::Declare(subcommand, command.flags, command.operands, *flags);
  subcommand.Details(command.details);
  subcommand.Run([flags, run = command.run] { return run(*flags); });
}

int Main(int argc, char** argv) {
  cli::Program program(
      "gemm-warmup",
      "prepares and inspects a cache of compiled kernels; needs no GPU");
  program.Alias("wait-s", "wait");
  for (const Command& command :
       {CompileCommand(), CheckCommand(), LoadCommand(), TuneCommand(),
        ListCommand(), ShowCommand(), StatsCommand(), VerifyCommand(),
        ExportCommand(), ImportCommand(), GcCommand(), DiffCommand()}) {
    Add(program, command);
  }
  program.Details(
      "`gemm-warmup COMMAND --help` says more. Exit codes: 0 complete; 1 "
      "incomplete or\nfailed; 2 wrong command line.");
  return program.Main(argc, argv);
}

}  // namespace
}  // namespace gemmd::warmup

int main(int argc, char** argv) {
  if (auto code = gemmd::jit::RunIfCompileWorker(argc, argv)) return *code;
  return gemmd::warmup::Main(argc, argv);
}
