// gemmctl: the command line of gemmd.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "clients/gemmctl/command.h"

namespace gemmd::gemmctl {
namespace {

const std::vector<Flag>& CommonFlags() {
  static const auto* const flags = new std::vector<Flag>{
      {"--target", "ADDRESS", "daemon, host:port or unix:/path",
       "localhost:50051"},
      {"--timeout", "SECONDS", "time limit; 0 means none", "0"},
      {"--help", "", "show this text", ""},
  };
  return *flags;
}

std::vector<Command> AllCommands() {
  std::vector<Command> commands = {MatmulCommand()};
  for (const auto& more :
       {TensorCommands(), KernelCommands(), ServerCommands()}) {
    commands.insert(commands.end(), more.begin(), more.end());
  }
  return commands;
}

std::string Summary(const Command& command) {
  return std::vector<std::string>(absl::StrSplit(command.help, '\n'))[0];
}

std::string Overview(const std::vector<Command>& commands) {
  std::string text =
      "gemmctl COMMAND [FLAGS] ARGUMENTS: talks to a gemmd daemon\n\n"
      "Commands (gemmctl COMMAND --help says more):\n";
  for (const Command& command : commands) {
    absl::StrAppendFormat(&text, "  %-16s %s\n", command.name,
                          Summary(command));
  }
  absl::StrAppend(
      &text, "\nFlags of every command:\n", FlagHelp(CommonFlags()),
      "\nExit codes: 0 done; 1 the daemon refused or failed, its gRPC code is\n"
      "printed; 2 wrong command line; 3 no daemon answers; 4 file trouble.\n");
  return text;
}

std::string Help(const Command& command) {
  return absl::StrCat("gemmctl ", command.name,
                      command.arguments.empty() ? "" : " ", command.arguments,
                      "\n\n", command.help, "\n\nFlags:\n",
                      FlagHelp(command.flags), FlagHelp(CommonFlags()));
}

// The command that the first one or two words name; null when none.
const Command* Find(const std::vector<Command>& commands,
                    absl::Span<char* const> words, size_t& used) {
  for (const Command& command : commands) {
    const std::vector<std::string> name = absl::StrSplit(command.name, ' ');
    if (words.size() < name.size()) continue;
    bool same = true;
    for (size_t i = 0; i < name.size(); ++i) same &= name[i] == words[i];
    if (!same) continue;
    used = name.size();
    return &command;
  }
  return nullptr;
}

bool WantsHelp(absl::Span<char* const> words) {
  for (const char* word : words) {
    if (absl::string_view(word) == "--help" ||
        absl::string_view(word) == "-h") {
      return true;
    }
  }
  return false;
}

int Run(const Command& command, absl::Span<char* const> words) {
  std::vector<Flag> flags = command.flags;
  flags.insert(flags.end(), CommonFlags().begin(), CommonFlags().end());
  const auto fail = [&](const absl::Status& status) {
    const int code = FailUsage(status);
    absl::FPrintF(stderr, "Try gemmctl %s --help\n", command.name);
    return code;
  };
  GEMMCTL_ASSIGN(const Arguments arguments,
                 Arguments::Parse(flags, words, command.least, command.most),
                 fail);
  GEMMCTL_ASSIGN(const double seconds, arguments.GetNumber("--timeout"), fail);
  client::Options options;
  if (seconds > 0) {
    options.timeout = absl::Seconds(seconds);
    options.connect_timeout =
        std::min(options.connect_timeout, options.timeout);
  }
  GEMMCTL_ASSIGN(const std::unique_ptr<client::Client> client,
                 client::Client::Connect(arguments.Get("--target"), options),
                 Fail);
  return command.run(*client, arguments);
}

int Main(absl::Span<char* const> words) {
  const std::vector<Command> commands = AllCommands();
  size_t used = 0;
  const Command* const command = Find(commands, words, used);
  if (command == nullptr) {
    if (words.empty() || !WantsHelp(words)) {
      absl::FPrintF(stderr, "%s%s", Overview(commands),
                    words.empty() ? ""
                                  : absl::StrCat("\ngemmctl: no command '",
                                                 words[0], "'\n"));
      return kUsage;
    }
    absl::PrintF("%s", Overview(commands));
    return kOk;
  }
  if (WantsHelp(words)) {
    absl::PrintF("%s", Help(*command));
    return kOk;
  }
  return Run(*command, words.subspan(used));
}

}  // namespace
}  // namespace gemmd::gemmctl

int main(int argc, char** argv) {
  return gemmd::gemmctl::Main(
      absl::MakeConstSpan(argv + 1, argc > 0 ? argc - 1 : 0));
}
