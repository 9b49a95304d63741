#include "clients/cli/command_line.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "clients/cli/config_file.h"
#include "clients/cli/mutexes.h"
#include "clients/cli/nearest.h"
#include "clients/cli/standard_streams.h"
#include "clients/cli/words.h"
#include "jit/base/file.h"
#include "jit/base/printable.h"
#include "jit/base/status.h"

namespace gemmd::cli {
namespace {

// What is wrong with a file of options; "" where that is for who reads it.
std::string WrongFile(const std::string& path) {
  // CLI11 takes it for no file, as if there were no options to obey.
  if (path.empty()) return "it is ''; allowed: a name";
  const jit::UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  // A folder can be opened, but not read.
  if (!file.ok() || read(file.get(), nullptr, 0) < 0) {
    const absl::Status why = jit::ErrnoStatus(errno, "read it");
    return absl::StrCat(path, ": ", why.message());
  }
  const absl::Status endless = jit::CheckEnds(file.get());
  return endless.ok() ? "" : absl::StrCat(path, ": ", endless.message());
}

}  // namespace

// A list is one value with commas, as on the command line, and options have
// their names of today. CLI11's own reader drops lines that it misreads.
class Program::Config final : public CLI::ConfigTOML {
 public:
  explicit Config(const Program& program) : program_(program) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::string text;
    for (std::string line; std::getline(input, line);) {
      absl::StrAppend(&text, line, "\n");
    }
    if (input.bad()) Refuse("it cannot be read");
    const absl::StatusOr<std::vector<Setting>> settings = ParseSettings(text);
    if (!settings.ok()) Refuse(settings.status().message());
    std::vector<CLI::ConfigItem> items;
    for (const Setting& setting : *settings) Add(setting, items);
    for (CLI::ConfigItem& item : items) {
      item.inputs = {absl::StrJoin(item.inputs, ",")};
    }
    return items;
  }

  // CLI11 takes an empty value for true.
  std::string to_flag(const CLI::ConfigItem& item) const override {
    const std::string value = absl::StrJoin(item.inputs, ",");
    if (value.empty()) {
      Refuse(absl::StrCat(item.name, " is ''; allowed: true, false"));
    }
    return value;
  }

 private:
  [[noreturn]] void Refuse(absl::string_view wrong) const {
    throw CLI::ConfigError(program_.OfFile(jit::Printable(wrong)));
  }

  // Lists of one name add up.
  void Add(const Setting& setting, std::vector<CLI::ConfigItem>& items) const {
    const std::string name = program_.Rename(setting.name);
    const std::string option = "--" + name;
    const std::string unknown = UnknownName(program_, option);
    if (!unknown.empty()) Refuse(absl::StripPrefix(unknown, "--"));
    if (!program_.app_->get_option(option)->get_configurable()) {
      Refuse(absl::StrCat("line ", setting.line, ": ", name,
                          " is of the command line alone"));
    }
    auto item = std::ranges::find(items, name, &CLI::ConfigItem::name);
    const bool again = item != items.end();
    if (!again) item = items.insert(item, {.name = name});
    item->inputs.insert(item->inputs.end(), setting.values.begin(),
                        setting.values.end());
    if ((again || setting.values.size() > 1) &&
        !program_.lists_.contains(option)) {
      Refuse(absl::StrCat("line ", setting.line, ": ", name,
                          " has a second value; allowed: one"));
    }
  }

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
                        "options without the dashes in front, as in listen = "
                        "\"127.0.0.1:50051\". The command line counts "
                        "more."))
      ->type_name("FILE")
      ->check(WrongFile);
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
  constexpr absl::string_view kEndOfOptions = "--";
  constexpr char kEarly[] = "-- stands before the command; allowed: behind it";
  std::vector<std::string> words = app_->remaining(/*recurse=*/true);
  std::erase(words, kEndOfOptions);
  if (words.empty()) {
    return !words_.empty() && words_.front() == kEndOfOptions ? kEarly : "";
  }
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
  if (!meant.empty() && meant == words.front()) return kEarly;
  return absl::StrCat(words.front().empty() ? "''" : words.front(),
                      " is no command; ",
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
  // What is wrong may hold a word of a file, however long that is.
  constexpr size_t kMostBytes = 8192;
  std::string shown(what);
  if (what.size() > kMostBytes) {
    constexpr size_t kHalf = kMostBytes / 2;
    shown = absl::StrCat(what.substr(0, kHalf), " ... ",
                         what.substr(what.size() - kHalf));
  }
  std::cerr << app_->get_name() << ": " << jit::PrintableLines(shown) << "\n";
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
  // How a child ended is told, whatever who started this one ignores.
  std::signal(SIGCHLD, SIG_DFL);
  DoNotLookForDeadlocks();
  const int code = ParseAndRun(argc, argv);
  const absl::Status printed = FlushStandardOutput();
  if (printed.ok()) return code;
  Complain(printed.message());
  return code == kExitOk ? kExitFailed : code;
}

}  // namespace gemmd::cli
