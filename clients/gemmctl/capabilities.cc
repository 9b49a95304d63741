// gemmctl capabilities: what products can be asked for. Needs no daemon.
#include "jit/problem/capabilities.h"

#include <cstdio>
#include <memory>

#include "absl/strings/str_format.h"
#include "clients/gemmctl/command.h"

namespace gemmd::gemmctl {

void AddCapabilities(cli::Command& program) {
  cli::Command& command =
      program.Subcommand("capabilities",
                         "types that this version multiplies, and steps of "
                         "the epilogue, without a daemon");
  const auto markdown = std::make_shared<bool>(false);
  command.Switch("--markdown", *markdown, "Print the tables of README.md.");
  command.Run([markdown]() -> absl::StatusOr<int> {
    if (*markdown) {
      absl::PrintF("%s\n%s", jit::CapabilitiesMarkdown(),
                   jit::EpilogueMarkdown());
    } else {
      absl::PrintF("%s", jit::CapabilitiesText());
    }
    return cli::kExitOk;
  });
}

}  // namespace gemmd::gemmctl
