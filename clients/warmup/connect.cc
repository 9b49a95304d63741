#include "clients/warmup/connect.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "clients/cli/address.h"
#include "clients/cli/command_line.h"
#include "jit/base/status.h"

namespace gemmd::warmup {
namespace {

// As flags are named here.
std::string FlagOf(const client::SecurityOption& option) {
  return absl::StrReplaceAll(option.name, {{"-", "_"}});
}

}  // namespace

std::vector<FlagSpec> WithConnection(std::vector<FlagSpec> flags) {
  std::vector<FlagSpec> all = {{"server", "ADDRESS", cli::ServerHelp()}};
  for (const client::SecurityOption& option : client::SecurityOptions()) {
    all.push_back(
        {FlagOf(option), "FILE",
         absl::StrCat(option.help, " Default: $", option.environment, ".")});
  }
  all.push_back({"timeout", "TIME",
                 absl::StrCat("Time limit of every call; 0: none. Default: ",
                              absl::FormatDuration(cli::kCallTimeout), ".")});
  all.push_back(
      {"wait", "TIME", "Wait so long for the daemon to answer. Default: 10s."});
  std::move(flags.begin(), flags.end(), std::back_inserter(all));
  return all;
}

absl::StatusOr<Connection> ConnectionOf(const Flags& flags) {
  Connection connection;
  connection.server = flags.Get("server", cli::DefaultServer());
  RETURN_IF_ERROR(cli::CheckServer(connection.server));
  client::Options& options = connection.options;
  ASSIGN_OR_RETURN(options.security, client::Security::Default());
  for (const client::SecurityOption& option : client::SecurityOptions()) {
    std::string& file = options.security.*option.file;
    file = flags.Get(FlagOf(option), file);
  }
  RETURN_IF_ERROR(client::CheckSecurity(options.security, connection.server));
  ASSIGN_OR_RETURN(options.connect_timeout,
                   flags.GetDuration("wait", absl::Seconds(10)));
  ASSIGN_OR_RETURN(const absl::Duration timeout,
                   flags.GetDuration("timeout", cli::kCallTimeout));
  if (timeout > absl::ZeroDuration()) {
    options.timeout = timeout;
    options.connect_timeout = std::min(options.connect_timeout, timeout);
  }
  return connection;
}

}  // namespace gemmd::warmup
