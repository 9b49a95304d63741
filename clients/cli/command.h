// A command of a program, as its options, operands and subcommands, on top of
// CLI11: each is declared where it is used, with its default, its range and its
// help. Thread-compatible.
#ifndef GEMMD_CLIENTS_CLI_COMMAND_H_
#define GEMMD_CLIENTS_CLI_COMMAND_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace CLI {
class App;
}  // namespace CLI

namespace gemmd::cli {

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
  // For a field of type f32.
  void Number(const std::string& name, double& to, const std::string& help);
  void Number(const std::string& name, double& to, Range<double> range,
              const std::string& help);
  void Bytes(const std::string& name, int64_t& to, Range<int64_t> range,
             const std::string& help);
  // A number without a unit counts `bare`; where there is none it is refused,
  // unless it is 0: what it counts would be a guess.
  void Duration(const std::string& name, absl::Duration& to,
                std::optional<absl::Duration> bare, Range<absl::Duration> range,
                const std::string& help);
  void Duration(const std::string& name, absl::Duration& to,
                Range<absl::Duration> range, const std::string& help) {
    Duration(name, to, std::nullopt, range, help);
  }
  // Whatever `parse` takes; the message of its error is what is allowed.
  // `fallback` is shown as the default, unless it is empty.
  void Parsed(const std::string& name, const std::string& fallback,
              const Parse& parse, const std::string& help);
  // The daemon to talk to; the default comes from $GEMMD_SERVER.
  void Server(std::string& to);

  // The option has to be given.
  void Require(const std::string& name);
  // The first one only together with the second one.
  void Require(const std::string& name, const std::string& with);

  // The rest of the words.
  void Operands(const std::string& name, std::vector<std::string>& to,
                int least, const std::string& help);

  // Paragraphs that --help shows after the options, in lines of its own; lines
  // that begin with a blank stay as they are.
  void Details(const std::string& text);

  Command& Subcommand(const std::string& name, const std::string& summary);

  // What Main does when this command was given; the result is the exit code.
  // INVALID_ARGUMENT exits with kExitUsage, other errors with kExitFailed.
  void Run(Body body) { body_ = std::move(body); }

 protected:
  // Columns of --help for the names of options.
  static constexpr size_t kNameColumns = 30;

  explicit Command(CLI::App* app) : app_(app) {}

  // `text` in lines that fit beside the names of options.
  static std::string Wrap(const std::string& text);

 private:
  friend class Program;

  void Add(const std::string& name, const std::string& help,
           const Parse& parse);
  void AddInt(const std::string& name, int64_t fallback, int64_t least,
              int64_t most, std::function<void(int64_t)> set,
              const std::string& help);

  CLI::App* const app_;
  std::string heading_ = "Options";
  std::set<std::string> lists_;  // Options of several values, with dashes.
  Body body_;
  std::vector<std::unique_ptr<Command>> subcommands_;
};

}  // namespace gemmd::cli

#endif  // GEMMD_CLIENTS_CLI_COMMAND_H_
