// gemmctl matmul-grouped.
#include <unistd.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "clients/gemmctl/command.h"
#include "clients/gemmctl/input.h"
#include "clients/gemmctl/matmul_product.h"
#include "jit/base/file.h"
#include "jit/base/status.h"
#include "jit/problem/group_line.h"

namespace gemmd::gemmctl {
namespace {

struct Options {
  std::string list;
  MatmulOptions common;
  bool quiet = false;
  bool json = false;
};

struct Line {
  int number;  // From 1.
  MatmulOptions product;
};

std::string Place(const Options& options, const Line& line) {
  return absl::StrCat(InputName(options.list), ": line ", line.number, ": ");
}

absl::Status At(const Options& options, const Line& line,
                const absl::Status& wrong) {
  return absl::Status(wrong.code(),
                      absl::StrCat(Place(options, line), wrong.message()));
}

absl::StatusOr<std::string> ReadList(const std::string& path) {
  constexpr int64_t kMostBytes = 16 << 20;
  absl::StatusOr<std::string> list =
      path == "-" ? jit::ReadAll(STDIN_FILENO, kMostBytes)
                  : jit::ReadFile(path, kMostBytes);
  if (list.ok()) return list;
  return absl::Status(list.status().code(),
                      absl::StrCat("cannot read ", InputName(path), ": ",
                                   list.status().message()));
}

absl::StatusOr<std::vector<Line>> ParseLines(const Options& options,
                                             const std::string& list) {
  std::vector<Line> all;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(list, '\n')) {
    ++number;
    const std::string text(absl::StripAsciiWhitespace(line));
    if (text.empty() || text[0] == '#') continue;
    Line& product = all.emplace_back(Line{number, options.common});
    cli::Program words("a product", "");
    DeclareOperands(words, product.product);
    DeclareProduct(words, product.product);
    if (absl::Status wrong = words.ParseLine(text); !wrong.ok()) {
      return At(options, product, wrong);
    }
  }
  const auto most = static_cast<size_t>(jit::kMaxGroupProducts);
  if (all.empty() || all.size() > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(InputName(options.list), " has ", all.size(),
                     " products; allowed: 1 to ", most));
  }
  return all;
}

absl::Status Check(const Options& options, const std::vector<Line>& lines) {
  std::vector<MatmulOptions> products;
  for (const Line& line : lines) products.push_back(line.product);
  if (options.list == "-") {  // It is read as well.
    products.push_back(MatmulOptions());
    products.back().a = options.list;
  }
  return CheckFiles(products);
}

// A line for each kernel, and the phases of the launches that it made.
void PrintExecutions(const std::vector<v1::Execution>& executions) {
  std::map<std::string, std::vector<const v1::Execution*>> by_kernel;
  for (const v1::Execution& execution : executions) {
    by_kernel[absl::StrCat(execution.device(), " by ",
                           execution.kernel().empty() ? "no kernel"
                                                      : execution.kernel())]
        .push_back(&execution);
  }
  for (const auto& [where, some] : by_kernel) {
    const v1::Phases& phases = some[0]->phases();
    Show(stderr,
         "%d products on %s (%s)\n"
         "us: queue %d, plan %d, compile %d, upload %d, execute %d, download "
         "%d\n",
         some.size(), where, v1::CubinSource_Name(some[0]->cubin_source()),
         phases.queue_us(), phases.plan_us(), phases.compile_us(),
         phases.upload_us(), phases.execute_us(), phases.download_us());
  }
}

void PrintAsJson(const std::vector<v1::Execution>& executions, std::FILE* out) {
  v1::MatmulGroupedResponse response;
  for (const v1::Execution& execution : executions) {
    *response.add_groups()->mutable_execution() = execution;
  }
  PrintJson(response, out);
}

int Run(client::Client& client, const Options& options) {
  GEMMCTL_ASSIGN(const std::string list, ReadList(options.list), FailFile);
  GEMMCTL_ASSIGN(const std::vector<Line> lines, ParseLines(options, list),
                 FailUsage);
  if (const absl::Status wrong = Check(options, lines); !wrong.ok()) {
    return FailUsage(wrong);
  }
  std::vector<std::unique_ptr<MatmulProduct>> loaded;
  std::vector<client::Product> products;
  bool prints = false;  // A result is on stdout: nothing else is.
  for (const Line& line : lines) {
    loaded.push_back(std::make_unique<MatmulProduct>(line.product));
    if (const auto failure = loaded.back()->Load(client)) {
      return failure->say(At(options, line, failure->status));
    }
    products.push_back(loaded.back()->product());
    prints |= UsesStandardOutput(line.product);
  }
  GEMMCTL_ASSIGN(std::vector<client::Result> results,
                 client.MatmulGrouped(products), Fail);
  std::vector<v1::Execution> executions;
  Outputs outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    executions.push_back(results[i].execution);
    if (absl::Status saved = loaded[i]->Save(std::move(results[i]), outputs);
        !saved.ok()) {
      return FailFile(At(options, lines[i], saved));
    }
  }
  if (absl::Status kept = outputs.Keep(); !kept.ok()) return FailFile(kept);
  if (options.json) {
    PrintAsJson(executions, prints ? stderr : stdout);
  } else if (!options.quiet) {
    PrintExecutions(executions);
  }
  return cli::kExitOk;
}

}  // namespace

void AddMatmulGrouped(cli::Command& program) {
  cli::Command& command = program.Subcommand(
      "matmul-grouped",
      "products of different sizes in one call, such as those of experts");
  const auto o = std::make_shared<Options>();
  command.Text("LIST", o->list,
               "A file with a product in each line; - is standard input.");
  DeclareProduct(command, o->common);
  command.Switch("--quiet", o->quiet, "Print nothing about the execution.");
  command.Switch("--json", o->json,
                 "Print the executions as JSON, those of a "
                 "MatmulGroupedResponse.");
  command.Details(
      "A line of LIST is what gemmctl matmul takes, each with an own result:\n"
      "\n"
      "  x0.npy w0.npy -o d0.npy\n"
      "  x1.npy tensor:HANDLE -o d1.npy --bias bias1.npy\n"
      "\n"
      "Options on the command line are those of every line that says nothing "
      "else. Lines\nthat begin with # are comments. Products that differ in "
      "nothing but sizes are made\nby one launch where that pays; they may "
      "have no rows. All are one message: at\nmost 256, and as many bytes as "
      "the daemon takes. Its errors count products from\ngroups[0]. If one "
      "fails, or cannot be written, no file is.");
  RunWithClient(command,
                [o](client::Client& client) { return Run(client, *o); });
}

}  // namespace gemmd::gemmctl
