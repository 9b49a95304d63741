// The one dialect of this project's command lines, on top of CLI11.
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

#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "clients/cli/command.h"

namespace gemmd::cli {

// Exit codes of all programs.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // What was asked for was not done.
inline constexpr int kExitUsage = 2;   // The command line is wrong.

// Of a call to a daemon, where --timeout says nothing: by then a daemon ends a
// call without a time limit (--max-call-time), unless it never answers.
inline constexpr absl::Duration kCallTimeout = absl::Hours(1);

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
