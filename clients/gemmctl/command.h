// What every command of gemmctl shares. A command prints its result to stdout
// and returns an exit code; what went wrong goes to stderr.
#ifndef GEMMD_CLIENTS_GEMMCTL_COMMAND_H_
#define GEMMD_CLIENTS_GEMMCTL_COMMAND_H_

#include <google/protobuf/message.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "clients/cpp/client.h"
#include "clients/gemmctl/arguments.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {

enum ExitCode {
  kOk = 0,
  kServerError = 1,  // The daemon refused or failed; its code is printed.
  kUsage = 2,        // The command line is wrong.
  kUnreachable = 3,  // No daemon answers, or it does not serve.
  kFileError = 4,    // A file cannot be read, understood or written.
};

struct Command {
  std::string name;       // "matmul", "tensor create".
  std::string arguments;  // "A.npy B.npy", for --help.
  std::string help;       // First line: summary.
  std::vector<Flag> flags;
  size_t least = 0;  // Positional arguments.
  size_t most = 0;
  int (*run)(client::Client& client, const Arguments& arguments);
};

Command MatmulCommand();
std::vector<Command> TensorCommands();
std::vector<Command> KernelCommands();
std::vector<Command> ServerCommands();

// Print "gemmctl: CODE: text" and give the exit code.
int Fail(const absl::Status& status);
int FailUsage(const absl::Status& status);
int FailFile(const absl::Status& status);

// Prints a message of the API as JSON with the names of the proto.
void PrintJson(const google::protobuf::Message& message);

}  // namespace gemmd::gemmctl

// Returns the exit code that `fail` gives for the status of `expr`.
#define GEMMCTL_ASSIGN(lhs, expr, fail) \
  GEMMCTL_ASSIGN_(GEMMD_CONCAT_(status_or_, __LINE__), lhs, expr, fail)
#define GEMMCTL_ASSIGN_(result, lhs, expr, fail)  \
  auto result = (expr);                           \
  if (!result.ok()) return fail(result.status()); \
  lhs = *std::move(result)

#endif  // GEMMD_CLIENTS_GEMMCTL_COMMAND_H_
