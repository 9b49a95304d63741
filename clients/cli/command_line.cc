#include "clients/cli/command_line.h"

#include <fcntl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "clients/cli/address.h"
#include "clients/cli/mutexes.h"
#include "clients/cli/nearest.h"
#include "clients/cli/quantity.h"
#include "clients/cli/standard_streams.h"
#include "clients/cli/words.h"
#include "jit/base/file.h"
#include "jit/base/printable.h"
#include "jit/base/status.h"

namespace gemmd::cli {
namespace {

constexpr size_t kNameColumns = 30;
constexpr size_t kTextColumns = 80 - kNameColumns;

// `text` in lines that fit beside the names of options.
std::string Wrap(const std::string& text) {
  std::string wrapped;
  size_t column = 0;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (column > 0 && column + 1 + word.size() > kTextColumns) {
      wrapped += '\n';
      column = 0;
    } else if (column > 0) {
      wrapped += ' ';
      ++column;
    }
    absl::StrAppend(&wrapped, word);
    column += word.size();
  }
  return wrapped;
}

// "Requests at a time." with its default and its range.
std::string Describe(const std::string& help, const std::string& fallback,
                     const std::string& allowed) {
  std::string text = help;
  if (!fallback.empty()) absl::StrAppend(&text, " Default: ", fallback, ".");
  if (!allowed.empty() && allowed != "from 0") {
    absl::StrAppend(&text, " Allowed: ", allowed, ".");
  }
  return text;
}

std::string RangeText(int64_t least, int64_t most,
                      std::string (*format)(int64_t)) {
  return most == std::numeric_limits<int64_t>::max()
             ? absl::StrCat("from ", format(least))
             : absl::StrCat(format(least), " to ", format(most));
}

std::string FormatInt(int64_t value) { return absl::StrCat(value); }

bool IsOperand(const std::string& name) { return name[0] != '-'; }

absl::Status Allowed(const std::string& text) {
  return absl::InvalidArgumentError(text);
}

// CLI11 takes counts as well, and the first of several values.
std::string WrongSwitch(const std::string& value) {
  return value == "true" || value == "false"
             ? ""
             : absl::StrCat("it is ", value, "; allowed: true, false");
}

// What is wrong with a file of options; "" where that is for who reads it.
std::string EndlessFile(const std::string& path) {
  const jit::UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.ok()) return "";
  const absl::Status endless = jit::CheckEnds(file.get());
  return endless.ok() ? "" : absl::StrCat(path, ": ", endless.message());
}

}  // namespace

void Command::Add(const std::string& name, const std::string& help,
                  const Parse& parse) {
  const std::vector<std::string> parts = absl::StrSplit(name, ' ');
  const auto callback = [parse,
                         option = parts[0]](const CLI::results_t& values) {
    const absl::Status status = parse(values.back());
    if (status.ok()) return true;
    const bool blank =
        values.back().empty() || absl::StrContains(values.back(), ' ');
    const char* const quote = blank ? "'" : "";
    throw CLI::ValidationError(
        absl::StrCat(option.substr(option.rfind(',') + 1), " is ", quote,
                     values.back(), quote, "; allowed: ", status.message()));
  };
  CLI::Option* const option = app_->add_option(parts[0], callback, Wrap(help));
  option->type_name(parts.size() > 1 ? parts[1] : "");
  if (IsOperand(name)) {
    option->required();
  } else {
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    option->group(heading_);
  }
}

void Command::Switch(const std::string& name, bool& to,
                     const std::string& help) {
  app_->add_flag(name, to, Wrap(help))
      ->check(WrongSwitch)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->group(heading_);
}

void Command::Text(const std::string& name, std::string& to,
                   const std::string& help) {
  Add(name, Describe(help, to, ""), [&to](const std::string& value) {
    to = value;
    return absl::OkStatus();
  });
}

void Command::File(const std::string& name, std::string& to,
                   const std::string& help) {
  Add(name, Describe(help, to, ""), [&to](const std::string& value) {
    if (value.empty()) return Allowed("a name");
    to = value;
    return absl::OkStatus();
  });
}

void Command::List(const std::string& name, std::vector<std::string>& to,
                   const std::string& help) {
  Add(name, Describe(help, absl::StrJoin(to, ","), ""),
      [&to](const std::string& value) {
        to = absl::StrSplit(value, ',', absl::SkipEmpty());
        return absl::OkStatus();
      });
}

void Command::Choice(const std::string& name, std::string& to,
                     const std::vector<std::string>& allowed,
                     const std::string& help) {
  const std::string all = absl::StrJoin(allowed, ", ");
  Add(name, Describe(help, to, all), [&to, allowed, all](const auto& value) {
    if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
      return Allowed(all);
    }
    to = value;
    return absl::OkStatus();
  });
}

void Command::AddInt(const std::string& name, int64_t fallback, int64_t least,
                     int64_t most, std::function<void(int64_t)> set,
                     const std::string& help) {
  const std::string range = RangeText(least, most, FormatInt);
  Add(name,
      Describe(help, IsOperand(name) ? "" : absl::StrCat(fallback), range),
      [least, most, range, set = std::move(set)](const std::string& value) {
        int64_t number = 0;
        if (!absl::SimpleAtoi(value, &number) || number < least ||
            number > most) {
          return Allowed(range);
        }
        set(number);
        return absl::OkStatus();
      });
}

void Command::Number(const std::string& name, double& to,
                     const std::string& help) {
  Add(name, Describe(help, absl::StrCat(to), ""),
      [&to](const std::string& value) {
        return absl::SimpleAtod(value, &to) ? absl::OkStatus()
                                            : Allowed("a number");
      });
}

void Command::Number(const std::string& name, double& to, Range<double> range,
                     const std::string& help) {
  const std::string allowed = absl::StrCat(range.least, " to ", range.most);
  Add(name, Describe(help, absl::StrCat(to), allowed),
      [&to, range, allowed](const std::string& value) {
        double number;  // Which may be none: nan is in no range.
        if (!absl::SimpleAtod(value, &number) ||
            !(number >= range.least && number <= range.most)) {
          return Allowed(allowed);
        }
        to = number;
        return absl::OkStatus();
      });
}

void Command::Bytes(const std::string& name, int64_t& to, Range<int64_t> range,
                    const std::string& help) {
  const std::string allowed = RangeText(range.least, range.most, FormatBytes);
  Add(name, Describe(help, FormatBytes(to), allowed),
      [&to, range, allowed](const std::string& value) {
        const absl::StatusOr<int64_t> bytes = ParseBytes(value);
        if (!bytes.ok()) return bytes.status();
        if (*bytes < range.least || *bytes > range.most) {
          return Allowed(allowed);
        }
        to = *bytes;
        return absl::OkStatus();
      });
}

void Command::Duration(const std::string& name, absl::Duration& to,
                       absl::Duration bare, Range<absl::Duration> range,
                       const std::string& help) {
  const std::string allowed =
      absl::StrCat(absl::FormatDuration(range.least), " to ",
                   absl::FormatDuration(range.most));
  Add(name, Describe(help, absl::FormatDuration(to), allowed),
      [&to, bare, range, allowed](const std::string& value) {
        const absl::StatusOr<absl::Duration> time = ParseDuration(value, bare);
        if (!time.ok()) return time.status();
        if (*time < range.least || *time > range.most) return Allowed(allowed);
        to = *time;
        return absl::OkStatus();
      });
}

void Command::Parsed(const std::string& name, const std::string& fallback,
                     const Parse& parse, const std::string& help) {
  Add(name, Describe(help, fallback, ""), parse);
}

void Command::Server(std::string& to) {
  to = DefaultServer();
  Add("--server ADDRESS", ServerHelp(), [&to](const std::string& value) {
    to = value;
    return absl::OkStatus();
  });
}

void Command::Require(const std::string& name) {
  app_->get_option(name)->required();
}

void Command::Operands(const std::string& name, std::vector<std::string>& to,
                       int least, const std::string& help) {
  app_->add_option(name, to, Wrap(help))
      ->required(least > 0)
      ->expected(least > 0 ? least : 1, CLI::detail::expected_max_vector_size)
      ->type_name("");
}

void Command::Details(const std::string& text) { app_->footer("\n" + text); }

Command& Command::Subcommand(const std::string& name,
                             const std::string& summary) {
  app_->require_subcommand(1);
  subcommands_.emplace_back(
      new Command(app_->add_subcommand(name, Wrap(summary))));
  return *subcommands_.back();
}

// A list is one value with commas, as on the command line, and options have
// their names of today.
class Program::Config final : public CLI::ConfigTOML {
 public:
  explicit Config(const Program& program) : program_(program) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> items = CLI::ConfigTOML::from_config(input);
    for (CLI::ConfigItem& item : items) {
      item.inputs = {absl::StrJoin(item.inputs, ",")};
      item.name = program_.Rename(item.name);
      const std::string wrong =
          item.parents.empty()
              ? UnknownName(program_, "--" + item.name)
              : absl::StrCat("[", absl::StrJoin(item.parents, "."),
                             "] is a section; allowed: \"name = value\" lines");
      if (wrong.empty()) continue;
      throw CLI::ConfigError(
          program_.OfFile(jit::Printable(absl::StripPrefix(wrong, "--"))));
    }
    return items;
  }

  // CLI11 takes an empty value for true.
  std::string to_flag(const CLI::ConfigItem& item) const override {
    const std::string value = absl::StrJoin(item.inputs, ",");
    if (!value.empty()) return value;
    throw CLI::ConfigError(program_.OfFile(
        absl::StrCat(item.name, " is ''; allowed: true, false")));
  }

 private:
  const Program& program_;
};

Program::Program(const std::string& name, const std::string& summary)
    : Command(new CLI::App(summary, name)), owned_(app_) {
  app_->set_help_flag("-h,--help", "Show this text and stop.");
  app_->set_version_flag("--version", name + " " GEMMD_VERSION,
                         "Show the version and stop.");
  app_->get_formatter()->column_width(kNameColumns);
  app_->option_defaults()->configurable(true);
}

Program::~Program() = default;

void Program::Alias(const std::string& old_name, const std::string& name) {
  aliases_[old_name] = name;
}

void Program::ConfigFile() {
  app_->set_config("--config", "",
                   Wrap("A file of \"name = value\" lines; names are those of "
                        "options without dashes. The command line counts "
                        "more."))
      ->type_name("FILE")
      ->check(EndlessFile);
  app_->allow_config_extras(CLI::config_extras_mode::error);
  app_->config_formatter(std::make_shared<Config>(*this));
}

std::string Program::Rename(const std::string& option) const {
  const std::string dashed = absl::StrReplaceAll(option, {{"_", "-"}});
  const auto alias = aliases_.find(dashed);
  return alias == aliases_.end() ? dashed : alias->second;
}

std::vector<std::string> Program::Words(
    const std::vector<std::string>& given) const {
  std::vector<std::string> words;
  bool options = true;
  for (const std::string& word : given) {
    options = options && word != "--";
    const size_t equals = word.find('=');
    if (!options || !absl::StartsWith(word, "--")) {
      words.push_back(word);
      continue;
    }
    const std::string name = "--" + Rename(word.substr(2, equals - 2));
    if (equals == word.npos) {
      words.push_back(name);
    } else if (equals + 1 == word.size()) {
      // CLI11 would take the next word for the value of "--name=".
      words.insert(words.end(), {name, ""});
    } else {
      words.push_back(name + word.substr(equals));
    }
  }
  return words;
}

const Command& Program::Given() const {
  const Command* command = this;
  for (bool deeper = true; deeper;) {
    deeper = false;
    for (const auto& subcommand : command->subcommands_) {
      if (!subcommand->app_->parsed()) continue;
      command = subcommand.get();
      deeper = true;
      break;
    }
  }
  return *command;
}

// "--nme is no option; did you mean --name?"; empty where `command` has it.
std::string Program::UnknownName(const Command& command,
                                 const std::string& name) {
  std::vector<std::string> known;
  for (const CLI::Option* declared : command.app_->get_options()) {
    for (const std::string& one : declared->get_lnames()) {
      known.push_back("--" + one);
    }
  }
  const std::string meant = Nearest(name, known);
  if (meant == name) return "";
  return absl::StrCat(name, " is no option",
                      meant.empty() ? "" : "; did you mean " + meant + "?");
}

std::string Program::UnknownWord() const {
  const std::vector<std::string> words = app_->remaining(/*recurse=*/true);
  if (words.empty()) return "";
  const Command& command = Given();
  const auto option =
      std::find_if(words.begin(), words.end(), [](const std::string& word) {
        return word.size() > 1 && word[0] == '-';
      });
  if (option != words.end()) {
    const std::string name = option->substr(0, option->find('='));
    const std::string unknown = UnknownName(command, name);
    if (!unknown.empty()) return *option + unknown.substr(name.size());
    return absl::StrCat(name, " stands before ", command.app_->get_name(),
                        "; allowed: behind it");
  }
  if (command.subcommands_.empty()) {
    return words.front() + " is more than was asked for";
  }
  std::vector<std::string> known;
  for (const auto& subcommand : command.subcommands_) {
    known.push_back(subcommand->app_->get_name());
  }
  const std::string meant = Nearest(words.front(), known);
  return absl::StrCat(words.front(), " is no command; ",
                      meant.empty() ? "allowed: " + absl::StrJoin(known, ", ")
                                    : "did you mean " + meant + "?");
}

std::string Program::OfFile(absl::string_view wrong) const {
  return absl::StrCat(app_->get_config_ptr()->as<std::string>(), ": ", wrong);
}

bool Program::IsOfFile(absl::string_view option) const {
  const CLI::Option* const file = app_->get_config_ptr();
  return file != nullptr && file->count() > 0 &&
         std::ranges::none_of(words_, [&](absl::string_view word) {
           return absl::ConsumePrefix(&word, option) &&
                  (word.empty() || word[0] == '=');
         });
}

std::string Program::WhatIsWrong(const std::exception& error) const {
  // Words of a file are not those of the command line.
  const bool in_file = dynamic_cast<const CLI::ConfigError*>(&error) != nullptr;
  const std::string unknown = in_file ? "" : UnknownWord();
  if (!unknown.empty()) return unknown;
  absl::string_view what = error.what();
  const bool of_file =
      dynamic_cast<const CLI::ValidationError*>(&error) != nullptr &&
      IsOfFile(what.substr(0, what.find_first_of(" :"))) &&
      absl::ConsumePrefix(&what, "--");
  return of_file ? OfFile(what) : std::string(what);
}

int Program::RunParsed() {
  const absl::StatusOr<int> code = Given().body_();
  if (code.ok()) return *code;
  Complain(code.status().message());
  return absl::IsInvalidArgument(code.status()) ? kExitUsage : kExitFailed;
}

void Program::Complain(absl::string_view what) const {
  std::cerr << app_->get_name() << ": " << jit::PrintableLines(what) << "\n";
}

void Program::Parse(const std::vector<std::string>& given) {
  words_ = Words(given);
  app_->parse(std::vector<std::string>(words_.rbegin(), words_.rend()));
}

absl::Status Program::ParseLine(const std::string& line) {
  ASSIGN_OR_RETURN(const std::vector<std::string> words, SplitWords(line));
  try {
    Parse(words);
    return absl::OkStatus();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      return absl::InvalidArgumentError(
          "--help and --version are of the command line");
    }
    return absl::InvalidArgumentError(WhatIsWrong(error));
  }
}

int Program::ParseAndRun(int argc, const char* const* argv) {
  try {
    Parse({argv + 1, argv + argc});
    return RunParsed();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app_->exit(error);
    Complain(WhatIsWrong(error));
    std::cerr << "See " << app_->get_name() << " --help.\n";
    return kExitUsage;
  } catch (const std::system_error& error) {  // Of std::thread.
    Complain(absl::StrCat("the system gives no more threads or memory (",
                          error.what(),
                          "); see ulimit -u and -v, and what the container "
                          "may have"));
    return kExitFailed;
  } catch (const std::bad_alloc&) {
    Complain("there is not enough memory for what was asked for");
    return kExitFailed;
  } catch (const std::exception& error) {
    Complain(error.what());
    return kExitFailed;
  }
}

int Program::Main(int argc, const char* const* argv) {
  HoldStandardStreams();
  // What is written past ulimit -f is an error, and no end of the program.
  std::signal(SIGXFSZ, SIG_IGN);
  DoNotLookForDeadlocks();
  const int code = ParseAndRun(argc, argv);
  const absl::Status printed = FlushStandardOutput();
  if (printed.ok()) return code;
  Complain(printed.message());
  return code == kExitOk ? kExitFailed : code;
}

}  // namespace gemmd::cli
