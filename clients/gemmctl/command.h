// What every command of gemmctl shares. A command prints its result to stdout
// and returns an exit code; what went wrong goes to stderr.
#ifndef GEMMD_CLIENTS_GEMMCTL_COMMAND_H_
#define GEMMD_CLIENTS_GEMMCTL_COMMAND_H_

#include <google/protobuf/message.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "clients/cli/command_line.h"
#include "clients/cpp/client.h"
#include "jit/base/printable.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {

// Each declares commands of its own.
void AddMatmul(cli::Command& program);
void AddMatmulGrouped(cli::Command& program);
void AddCompress(cli::Command& program);
void AddQuantize(cli::Command& program);
void AddTensor(cli::Command& program);
void AddModel(cli::Command& program);
void AddKernel(cli::Command& program);
void AddServer(cli::Command& program);
void AddCapabilities(cli::Command& program);
void AddLoad(cli::Command& program);

// Adds the options of the connection, and makes the command run `body` with a
// client that a daemon has answered. `timeout` is that of every call unless
// --timeout is given.
void RunWithClient(cli::Command& command,
                   std::function<int(client::Client&)> body,
                   absl::Duration timeout = cli::kCallTimeout);

// The same for a new command of `group` with options of its own, which
// `declare` declares and `run` gets.
template <typename Options>
void AddWithClient(cli::Command& group, const std::string& name,
                   const std::string& summary,
                   int (*run)(client::Client&, const Options&),
                   void (*declare)(cli::Command&,
                                   std::type_identity_t<Options>&)) {
  cli::Command& command = group.Subcommand(name, summary);
  const auto options = std::make_shared<Options>();
  declare(command, *options);
  RunWithClient(command, [options, run](client::Client& client) {
    return run(client, *options);
  });
}

// Options that several commands have.
void TypeOption(cli::Command& command, const std::string& name,
                v1::DataType& to, const std::string& help);
void OrderOption(cli::Command& command, const std::string& name, v1::Order& to,
                 const std::string& help);
// "a" or "b", as the order whose lines run along k.
void SideOption(cli::Command& command, const std::string& name, v1::Order& to,
                const std::string& help);
// The name of a file, such as that of a result, or of a tensor: an empty one,
// which an unset variable makes, is an error and does not stand for none. So is
// "tensor:" alone.
void FileOption(cli::Command& command, const std::string& name, std::string& to,
                const std::string& help);

// Prints what a daemon said, which may be another client's text: nothing in it
// controls the terminal.
template <typename... Values>
void Show(std::FILE* out, const absl::FormatSpec<Values...>& format,
          const Values&... values) {
  const std::string text = absl::StrFormat(format, values...);
  std::fputs(jit::PrintableLines(text).c_str(), out);
}

// Print what went wrong and give the exit code. Fail is for what the daemon
// said and names the gRPC code.
int Fail(const absl::Status& status);
int FailUsage(const absl::Status& status);
int FailFile(const absl::Status& status);

// Prints a message of the API as JSON with the names of the proto.
void PrintJson(const google::protobuf::Message& message,
               std::FILE* out = stdout);

}  // namespace gemmd::gemmctl

// Returns the exit code that `fail` gives for the status of `expr`.
#define GEMMCTL_ASSIGN(lhs, expr, fail) \
  GEMMCTL_ASSIGN_(GEMMD_CONCAT_(status_or_, __LINE__), lhs, expr, fail)
#define GEMMCTL_ASSIGN_(result, lhs, expr, fail)  \
  auto result = (expr);                           \
  if (!result.ok()) return fail(result.status()); \
  lhs = *std::move(result)

#endif  // GEMMD_CLIENTS_GEMMCTL_COMMAND_H_
