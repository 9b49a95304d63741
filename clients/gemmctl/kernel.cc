// gemmctl kernel ...
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/gemmctl/command.h"
#include "clients/gemmctl/convert.h"
#include "clients/gemmctl/problem_options.h"
#include "jit/base/status.h"
#include "proto/convert/problem.h"

namespace gemmd::gemmctl {
namespace {

constexpr size_t kKeyDigits = 64;
constexpr size_t kMostShown = 5;  // Of many keys.

struct KernelOptions {
  std::string key;
  std::vector<std::string> keys;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batch = 1;
  ProblemTypes types = {.a = v1::DATA_TYPE_BF16};
  ProblemOptions problem;
  double beta = 0;
  std::string device;
  bool source = false;
  bool log = false;
  bool json = false;
};

// The key that `word` is, begins, or whose kernel it names.
absl::StatusOr<std::string> FindKey(client::Client& client,
                                    const std::string& word) {
  if (word.size() == kKeyDigits) return word;
  ASSIGN_OR_RETURN(const std::vector<v1::KernelSummary> kernels,
                   client.ListKernels());
  std::vector<std::string> found;
  for (const v1::KernelSummary& kernel : kernels) {
    if (kernel.kernel() == word || absl::StartsWith(kernel.key(), word)) {
      found.push_back(kernel.key());
    }
  }
  if (found.size() == 1) return found[0];
  const std::string shown = word.empty() ? "''" : word;
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "no kernel has a key that begins with ", shown, ", nor that name"));
  }
  const size_t all = found.size();
  found.resize(std::min(all, kMostShown));
  return absl::FailedPreconditionError(absl::StrCat(
      all, " kernels have a key that begins with ", shown,
      ", or that name: ", absl::StrJoin(found, ", "),
      all == found.size() ? ""
                          : absl::StrCat(" and ", all - found.size(),
                                         " more; gemmctl kernel list shows "
                                         "all")));
}

int List(client::Client& client, const KernelOptions& options) {
  GEMMCTL_ASSIGN(const std::vector<v1::KernelSummary> kernels,
                 client.ListKernels(), Fail);
  if (options.json) {
    v1::ListKernelsResponse response;
    *response.mutable_kernels() = {kernels.begin(), kernels.end()};
    PrintJson(response);
    return cli::kExitOk;
  }
  for (const v1::KernelSummary& kernel : kernels) {
    Show(stdout, "%s %s %d bytes%s%s\n", kernel.key(), kernel.kernel(),
         kernel.cubin_bytes(), kernel.loaded_on().empty() ? "" : ", loaded on ",
         absl::StrJoin(kernel.loaded_on(), " "));
  }
  return cli::kExitOk;
}

int Describe(client::Client& client, const KernelOptions& options) {
  GEMMCTL_ASSIGN(const std::string key, FindKey(client, options.key), Fail);
  GEMMCTL_ASSIGN(const v1::KernelDescription kernel, client.DescribeKernel(key),
                 Fail);
  if (options.json) {
    PrintJson(kernel);
  } else if (options.source) {
    Show(stdout, "%s", kernel.source());
  } else if (options.log) {
    Show(stdout, "%s", kernel.compile_log());
  } else {
    Show(stdout,
         "key            %s\nkernel         %s\ncubin          %d bytes\n"
         "registers      %d per thread\nshared memory  %d bytes, static\n"
         "spills         %d bytes\ncompiled in    %d ms by %s\n"
         "options        %s\nloaded on      %s\n",
         kernel.summary().key(), kernel.summary().kernel(),
         kernel.summary().cubin_bytes(), kernel.registers(),
         kernel.shared_memory_bytes(), kernel.spill_bytes(),
         kernel.compile_ms(), kernel.compiler(),
         absl::StrJoin(kernel.options(), " "),
         absl::StrJoin(kernel.summary().loaded_on(), " "));
  }
  return cli::kExitOk;
}

absl::StatusOr<v1::Problem> ProblemOf(const KernelOptions& options) {
  ProblemTypes types = options.types;
  if (types.b == v1::DATA_TYPE_UNSPECIFIED) types.b = types.a;
  ASSIGN_OR_RETURN(jit::Problem problem, MakeProblem(types, options.problem));
  problem.m = options.m;
  problem.n = options.n;
  problem.k = options.k;
  problem.batch = options.batch;
  problem.beta = static_cast<float>(options.beta);
  RETURN_IF_ERROR(jit::Validate(problem));
  return convert::ToWire(problem);
}

int Prepare(client::Client& client, const KernelOptions& options) {
  GEMMCTL_ASSIGN(const v1::Problem problem, ProblemOf(options), FailUsage);
  GEMMCTL_ASSIGN(const std::vector<v1::Execution> kernels,
                 client.PrepareKernels({&problem, 1}, options.device), Fail);
  if (options.json) {
    v1::PrepareKernelsResponse response;
    *response.mutable_kernels() = {kernels.begin(), kernels.end()};
    PrintJson(response);
    return cli::kExitOk;
  }
  for (const v1::Execution& execution : kernels) {
    Show(stdout, "%s %s %s on %s\n", execution.cubin_key(), execution.kernel(),
         v1::CubinSource_Name(execution.cubin_source()), execution.device());
  }
  return cli::kExitOk;
}

int Evict(client::Client& client, const KernelOptions& options) {
  for (const std::string& word : options.keys) {
    GEMMCTL_ASSIGN(const std::string key, FindKey(client, word), Fail);
    if (absl::Status gone = client.EvictKernel(key); !gone.ok()) {
      return Fail(gone);
    }
  }
  return cli::kExitOk;
}

void DeclareJson(cli::Command& command, KernelOptions& options) {
  command.Switch("--json", options.json, "Print JSON.");
}

void DeclareDescribe(cli::Command& command, KernelOptions& options) {
  command.Text("KEY", options.key, "Its key, the start of it, or its name.");
  command.Switch("--source", options.source,
                 "Print the generated source instead.");
  command.Switch("--log", options.log, "Print what the compiler said instead.");
  DeclareJson(command, options);
}

void DeclarePrepare(cli::Command& command, KernelOptions& options) {
  command.Int("M", options.m, {0}, "Rows of A and D.");
  command.Int("N", options.n, {0}, "Columns of B and D.");
  command.Int("K", options.k, {0}, "Columns of A, rows of B.");
  command.Int("--batch N", options.batch, {0}, "Products of that size.");
  ProblemTypes& types = options.types;
  TypeOption(command, "--dtype TYPE", types.a,
             "Of A and B: a type of gemmctl capabilities.");
  TypeOption(command, "--b-type TYPE", types.b, "Of B, where it is another.");
  TypeOption(command, "--d-type TYPE", types.d,
             "Of D. Default: that of A; s32 of integers and bits.");
  OrderOption(command, "--a-order ORDER", types.a_order, "row or column.");
  OrderOption(command, "--b-order ORDER", types.b_order, "row or column.");
  OrderOption(command, "--order ORDER", types.d_order, "Of D: row or column.");
  options.problem.Declare(command);
  options.problem.DeclareEpilogue(command);
  command.Number("--beta X", options.beta, "Not 0: a kernel that reads C.");
  command.Text("--device NAME", options.device, "Default: every device.");
  DeclareJson(command, options);
}

}  // namespace

void AddKernel(cli::Command& program) {
  cli::Command& group = program.Subcommand(
      "kernel", "kernels of the daemon: list, describe, prepare, evict");
  AddWithClient(group, "list", "kernels in the daemon's cache", List,
                DeclareJson);
  AddWithClient(group, "describe", "one kernel: resources, options, compiler",
                Describe, DeclareDescribe);
  AddWithClient(group, "prepare", "compile and load what a problem would use",
                Prepare, DeclarePrepare);
  AddWithClient(group, "evict", "forget kernels, on disk too", Evict,
                [](cli::Command& command, KernelOptions& options) {
                  command.Operands("KEY", options.keys, 1,
                                   "Keys, starts of keys, or names.");
                });
}

}  // namespace gemmd::gemmctl
