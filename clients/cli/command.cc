#include "clients/cli/command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "clients/cli/address.h"
#include "clients/cli/quantity.h"

namespace gemmd::cli {
namespace {

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

constexpr size_t kColumns = 80;  // Of --help.

std::string WrapAt(size_t columns, absl::string_view text) {
  std::string wrapped;
  size_t column = 0;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (column > 0 && column + 1 + word.size() > columns) {
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

// Paragraphs, wherever their lines ended until now. A line that begins with a
// blank stays as it is.
std::string WrapParagraphs(const std::string& text) {
  std::vector<std::string> parts;
  std::string paragraph;
  const auto end_paragraph = [&] {
    if (!paragraph.empty()) parts.push_back(WrapAt(kColumns, paragraph));
    paragraph.clear();
  };
  for (absl::string_view line :
       absl::StrSplit(absl::StripTrailingAsciiWhitespace(text), '\n')) {
    if (line.empty() || line[0] == ' ') {
      end_paragraph();
      parts.emplace_back(line);
    } else {
      absl::StrAppend(&paragraph, line, " ");
    }
  }
  end_paragraph();
  return absl::StrJoin(parts, "\n");
}

}  // namespace

std::string Command::Wrap(const std::string& text) {
  return WrapAt(kColumns - kNameColumns, text);
}

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
  lists_.insert(name.substr(0, name.find(' ')));
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
        const absl::StatusOr<float> number = ParseF32(value);
        if (number.ok()) to = *number;
        return number.status();
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
                       std::optional<absl::Duration> bare,
                       Range<absl::Duration> range, const std::string& help) {
  // What has no end is no value that could be given.
  constexpr absl::Duration kEndless = absl::InfiniteDuration();
  const std::string least = absl::FormatDuration(range.least);
  const std::string allowed =
      range.most == kEndless
          ? absl::StrCat("from ", least)
          : absl::StrCat(least, " to ", absl::FormatDuration(range.most));
  const std::string fallback =
      to == kEndless ? "none" : absl::FormatDuration(to);
  Add(name, Describe(help, fallback, allowed),
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

void Command::Require(const std::string& name, const std::string& with) {
  app_->get_option(name)->needs(app_->get_option(with));
}

void Command::Operands(const std::string& name, std::vector<std::string>& to,
                       int least, const std::string& help) {
  app_->add_option(name, to, Wrap(help))
      ->required(least > 0)
      ->expected(least > 0 ? least : 1, CLI::detail::expected_max_vector_size)
      ->type_name("");
}

void Command::Details(const std::string& text) {
  app_->footer("\n" + WrapParagraphs(text));
}

Command& Command::Subcommand(const std::string& name,
                             const std::string& summary) {
  app_->require_subcommand(1);
  subcommands_.emplace_back(
      new Command(app_->add_subcommand(name, Wrap(summary))));
  return *subcommands_.back();
}

}  // namespace gemmd::cli
