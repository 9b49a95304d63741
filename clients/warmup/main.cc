// gemm-warmup: prepares, inspects and looks after a kernel cache.
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/warmup/command.h"
#include "jit/compile/compile_worker.h"

namespace gemmd::warmup {
namespace {

std::vector<Command> Commands() {
  return {CompileCommand(), LoadCommand(),   ListCommand(),   ShowCommand(),
          StatsCommand(),   VerifyCommand(), ExportCommand(), ImportCommand(),
          GcCommand(),      DiffCommand()};
}

std::string Usage() {
  std::string text =
      "Usage: gemm-warmup COMMAND [FLAGS] [OPERANDS]\n"
      "Prepares and inspects a cache of compiled kernels. Needs no GPU.\n\n";
  for (const Command& command : Commands()) {
    absl::StrAppendFormat(&text, "  %-10s %s\n", command.name, command.summary);
  }
  return absl::StrCat(text,
                      "\n`gemm-warmup COMMAND --help` tells more. Exit codes: "
                      "0 complete, 1 incomplete, 2 wrong usage.\n");
}

std::string Help(const Command& command) {
  return absl::StrCat("Usage: gemm-warmup ", command.name, " [FLAGS]",
                      command.operands.empty() ? "" : " ", command.operands,
                      "\n", command.summary, "\n",
                      command.details.empty() ? "" : "\n", command.details,
                      "\n", DescribeFlags(command.flags));
}

int RunCommand(const Command& command,
               const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--help") {
      std::fputs(Help(command).c_str(), stdout);
      return kExitComplete;
    }
  }
  const absl::StatusOr<Flags> flags = Flags::Parse(command.flags, arguments);
  const absl::StatusOr<int> code =
      flags.ok() ? command.run(*flags) : flags.status();
  if (code.ok()) return *code;
  absl::FPrintF(stderr, "gemm-warmup: %s\n", code.status().message());
  return absl::IsInvalidArgument(code.status()) ? kExitUsage : kExitIncomplete;
}

int Main(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    std::fputs(Usage().c_str(), stderr);
    return kExitUsage;
  }
  if (arguments[0] == "--help") {
    std::fputs(Usage().c_str(), stdout);
    return kExitComplete;
  }
  for (const Command& command : Commands()) {
    if (command.name == arguments[0]) {
      return RunCommand(command, {arguments.begin() + 1, arguments.end()});
    }
  }
  absl::FPrintF(stderr, "gemm-warmup: unknown command '%s'\n%s", arguments[0],
                Usage());
  return kExitUsage;
}

}  // namespace
}  // namespace gemmd::warmup

int main(int argc, char** argv) {
  if (auto code = gemmd::jit::RunIfCompileWorker(argc, argv)) return *code;
  return gemmd::warmup::Main({argv + 1, argv + argc});
}
