// gemmctl kernel ...
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "clients/gemmctl/command.h"
#include "clients/gemmctl/convert.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {
namespace {

int List(client::Client& client, const Arguments& arguments) {
  GEMMCTL_ASSIGN(const std::vector<v1::KernelSummary> kernels,
                 client.ListKernels(), Fail);
  if (arguments.Has("--json")) {
    v1::ListKernelsResponse response;
    *response.mutable_kernels() = {kernels.begin(), kernels.end()};
    PrintJson(response);
    return kOk;
  }
  for (const v1::KernelSummary& kernel : kernels) {
    absl::PrintF("%s %s %d bytes%s%s\n", kernel.key(), kernel.kernel(),
                 kernel.cubin_bytes(),
                 kernel.loaded_on().empty() ? "" : ", loaded on ",
                 absl::StrJoin(kernel.loaded_on(), " "));
  }
  return kOk;
}

int Describe(client::Client& client, const Arguments& arguments) {
  GEMMCTL_ASSIGN(const v1::KernelDescription kernel,
                 client.DescribeKernel(arguments.positional()[0]), Fail);
  if (arguments.Has("--json")) {
    PrintJson(kernel);
  } else if (arguments.Has("--source")) {
    std::fputs(kernel.source().c_str(), stdout);
  } else if (arguments.Has("--log")) {
    std::fputs(kernel.compile_log().c_str(), stdout);
  } else {
    absl::PrintF(
        "key            %s\nkernel         %s\ncubin          %d bytes\n"
        "registers      %d per thread\nshared memory  %d bytes\n"
        "spills         %d bytes\ncompiled in    %d ms by %s\n"
        "options        %s\nloaded on      %s\n",
        kernel.summary().key(), kernel.summary().kernel(),
        kernel.summary().cubin_bytes(), kernel.registers(),
        kernel.shared_memory_bytes(), kernel.spill_bytes(), kernel.compile_ms(),
        kernel.compiler(), absl::StrJoin(kernel.options(), " "),
        absl::StrJoin(kernel.summary().loaded_on(), " "));
  }
  return kOk;
}

absl::StatusOr<v1::Problem> ParseProblem(const Arguments& arguments) {
  v1::Problem problem;
  int64_t sides[3] = {};
  for (int i = 0; i < 3; ++i) {
    if (!absl::SimpleAtoi(arguments.positional()[i], &sides[i])) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", arguments.positional()[i], "' is not a number of elements"));
    }
  }
  problem.set_m(sides[0]);
  problem.set_n(sides[1]);
  problem.set_k(sides[2]);
  ASSIGN_OR_RETURN(const v1::DataType type,
                   ParseDataType(arguments.Get("--dtype")));
  problem.set_a_type(type);
  problem.set_b_type(type);
  problem.set_d_type(type);
  if (arguments.Has("--d-type")) {
    ASSIGN_OR_RETURN(const v1::DataType d_type,
                     ParseDataType(arguments.Get("--d-type")));
    problem.set_d_type(d_type);
  }
  problem.set_c_type(problem.d_type());
  ASSIGN_OR_RETURN(const v1::Order a, ParseOrder(arguments.Get("--a-order")));
  ASSIGN_OR_RETURN(const v1::Order b, ParseOrder(arguments.Get("--b-order")));
  ASSIGN_OR_RETURN(const v1::Order d, ParseOrder(arguments.Get("--order")));
  ASSIGN_OR_RETURN(const double beta, arguments.GetNumber("--beta"));
  problem.set_a_order(a);
  problem.set_b_order(b);
  problem.set_d_order(d);
  problem.set_beta(static_cast<float>(beta));
  return problem;
}

int Prepare(client::Client& client, const Arguments& arguments) {
  GEMMCTL_ASSIGN(const v1::Problem problem, ParseProblem(arguments), FailUsage);
  GEMMCTL_ASSIGN(
      const std::vector<v1::Execution> kernels,
      client.PrepareKernels({&problem, 1}, arguments.Get("--device")), Fail);
  for (const v1::Execution& execution : kernels) {
    absl::PrintF("%s %s %s on %s\n", execution.cubin_key(), execution.kernel(),
                 v1::CubinSource_Name(execution.cubin_source()),
                 execution.device());
  }
  return kOk;
}

int Evict(client::Client& client, const Arguments& arguments) {
  for (const std::string& key : arguments.positional()) {
    if (absl::Status gone = client.EvictKernel(key); !gone.ok()) {
      return Fail(gone);
    }
  }
  return kOk;
}

}  // namespace

std::vector<Command> KernelCommands() {
  const Flag json = {"--json", "", "print JSON", ""};
  return {
      {"kernel list", "", "kernels in the daemon's cache", {json}, 0, 0, List},
      {"kernel describe",
       "KEY",
       "one kernel: resources, options, compiler",
       {{"--source", "", "print the generated source instead", ""},
        {"--log", "", "print what the compiler said instead", ""},
        json},
       1,
       1,
       Describe},
      {"kernel prepare",
       "M N K",
       "compile and load what a problem would use",
       {{"--dtype", "TYPE", "of A and B: bf16 or f16", "bf16"},
        {"--d-type", "TYPE", "of D: bf16, f16 or f32; default: that of A", ""},
        {"--a-order", "ORDER", "row or column", "row"},
        {"--b-order", "ORDER", "row or column", "row"},
        {"--order", "ORDER", "of D: row or column", "row"},
        {"--beta", "X", "not 0: a kernel that reads C", "0"},
        {"--device", "NAME", "default: every device", ""}},
       3,
       3,
       Prepare},
      {"kernel evict",
       "KEY...",
       "forget kernels, on disk too",
       {},
       1,
       1000,
       Evict},
  };
}

}  // namespace gemmd::gemmctl
