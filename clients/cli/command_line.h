// The one dialect of this project's command lines, on top of CLI11: options,
// operands and subcommands are declared where they are used, each with its
// default, its range and its help in one place.
//
//   cli::Program program("gemmd", "multiplies matrices for clients");
//   program.Int("--lanes N", options.lanes, {1, 16}, "Requests at a time.");
//   program.Run([&] { return Serve(options); });
//   return program.Main(argc, argv);
//
// Values may follow "=" or a blank; the last of two equal options counts; "-h"
// and "--help" are everywhere. Thread-compatible.
#ifndef GEMMD_CLIENTS_CLI_COMMAND_LINE_H_
#define GEMMD_CLIENTS_CLI_COMMAND_LINE_H_

#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace CLI {
class App;
}  // namespace CLI

namespace gemmd::cli {

// Exit codes of all programs.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // What was asked for was not done.
inline constexpr int kExitUsage = 2;   // The command line is wrong.

// Of a call to a daemon, where --timeout says nothing: by then a daemon ends a
// call without a time limit (--max-call-time), unless it never answers.
inline constexpr absl::Duration kCallTimeout = absl::Hours(1);

template <typename T>
struct Range {
  T least;
  T most = std::numeric_limits<T>::max();
};

class Program;

// An option is named with what it takes: "--lanes N", "-o,--output FILE". A
// name without dashes is that of an operand, which has to be given; operands
// stand in the order of their calls. The variable that is set outlives the
// parse and holds the default.
class Command {
 public:
  using Body = std::function<absl::StatusOr<int>()>;
  using Parse = std::function<absl::Status(const std::string&)>;

  // What the following options are listed under by --help.
  void Heading(const std::string& text) { heading_ = text; }

  void Switch(const std::string& name, bool& to, const std::string& help);
  void Text(const std::string& name, std::string& to, const std::string& help);
  // The name of something, which is not empty: an unset variable of a script
  // does not take away what was to be read.
  void File(const std::string& name, std::string& to, const std::string& help);
  // Separated by commas.
  void List(const std::string& name, std::vector<std::string>& to,
            const std::string& help);
  void Choice(const std::string& name, std::string& to,
              const std::vector<std::string>& allowed, const std::string& help);
  template <typename T>
  void Int(const std::string& name, T& to, std::type_identity_t<Range<T>> range,
           const std::string& help) {
    AddInt(
        name, to, range.least, range.most,
        [&to](int64_t value) { to = static_cast<T>(value); }, help);
  }
  void Number(const std::string& name, double& to, const std::string& help);
  void Number(const std::string& name, double& to, Range<double> range,
              const std::string& help);
  void Bytes(const std::string& name, int64_t& to, Range<int64_t> range,
             const std::string& help);
  // A number without a unit counts `bare`.
  void Duration(const std::string& name, absl::Duration& to,
                absl::Duration bare, Range<absl::Duration> range,
                const std::string& help);
  // Whatever `parse` takes; the message of its error is what is allowed.
  // `fallback` is shown as the default, unless it is empty.
  void Parsed(const std::string& name, const std::string& fallback,
              const Parse& parse, const std::string& help);
  // The daemon to talk to; the default comes from $GEMMD_SERVER.
  void Server(std::string& to);

  // The option has to be given.
  void Require(const std::string& name);

  // The rest of the words.
  void Operands(const std::string& name, std::vector<std::string>& to,
                int least, const std::string& help);

  // Shown after the options by --help.
  void Details(const std::string& text);

  Command& Subcommand(const std::string& name, const std::string& summary);

  // What Main does when this command was given; the result is the exit code.
  // INVALID_ARGUMENT exits with kExitUsage, other errors with kExitFailed.
  void Run(Body body) { body_ = std::move(body); }

 protected:
  explicit Command(CLI::App* app) : app_(app) {}

 private:
  friend class Program;

  void Add(const std::string& name, const std::string& help,
           const Parse& parse);
  void AddInt(const std::string& name, int64_t fallback, int64_t least,
              int64_t most, std::function<void(int64_t)> set,
              const std::string& help);

  CLI::App* const app_;
  std::string heading_ = "Options";
  Body body_;
  std::vector<std::unique_ptr<Command>> subcommands_;
};

class Program : public Command {
 public:
  Program(const std::string& name, const std::string& summary);
  ~Program();

  // `old_name` means `name`, and --help does not tell.
  void Alias(const std::string& old_name, const std::string& name);
  // --config FILE: "name = value" lines, the names being those of options
  // without their dashes. The command line counts more.
  void ConfigFile();

  // Parses the words of `line`, quoted where they have blanks, and runs
  // nothing. INVALID_ARGUMENT says what is wrong.
  absl::Status ParseLine(const std::string& line);

  // Parses and runs. Errors go to stderr, --help and --version to stdout. What
  // stdout does not take makes the program fail.
  int Main(int argc, const char* const* argv);

 private:
  class Config;

  // How options were spelled until now: underscores, and aliases.
  std::string Rename(const std::string& option) const;
  std::vector<std::string> Words(const std::vector<std::string>& given) const;
  // Throws what CLI11 throws.
  void Parse(const std::vector<std::string>& given);
  // The command whose name was given.
  const Command& Given() const;
  static std::string UnknownName(const Command& command,
                                 const std::string& name);
  // What is wrong with a word that nothing takes; empty when there is none.
  std::string UnknownWord() const;
  // Names the file of options before what is wrong there.
  std::string OfFile(absl::string_view wrong) const;
  // Whether the value of "--option" cannot be the command line's.
  bool IsOfFile(absl::string_view option) const;
  // Of a parse that ended with `error`.
  std::string WhatIsWrong(const std::exception& error) const;
  int RunParsed();
  int ParseAndRun(int argc, const char* const* argv);
  void Complain(absl::string_view what) const;

  std::unique_ptr<CLI::App> owned_;
  std::map<std::string, std::string> aliases_;
  std::vector<std::string> words_;  // Of the last parse.
};

}  // namespace gemmd::cli

#endif  // GEMMD_CLIENTS_CLI_COMMAND_LINE_H_
