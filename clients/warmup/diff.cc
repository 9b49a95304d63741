// gemm-warmup diff: what one cache has and another has not.
#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/warmup/command.h"
#include "clients/warmup/kernels.h"
#include "jit/base/status.h"

namespace gemmd::warmup {
namespace {

using Kernels = std::map<std::string, jit::EntrySummary>;  // By key.
using Records = std::map<std::string, jit::TuningRecord>;  // By key.

Kernels ByKey(KernelList list) {
  Kernels by_key;
  for (jit::EntrySummary& kernel : list.kernels) {
    by_key[kernel.key] = std::move(kernel);
  }
  return by_key;
}

Records ByKey(std::vector<jit::TuningRecord> list) {
  Records by_key;
  for (jit::TuningRecord& record : list) {
    by_key[jit::TuningKey(record.problem_class, record.device,
                          record.template_digest)] = std::move(record);
  }
  return by_key;
}

const std::string& NameOf(const jit::EntrySummary& kernel) {
  return kernel.name;
}

std::string NameOf(const jit::TuningRecord& record) {
  return absl::StrCat("tuning of ", record.problem_class, " on ",
                      record.device);
}

// Prints with `mark` what `left` has alone; true when there was something.
template <typename Things>
bool PrintAlone(char mark, const Things& left, const Things& right) {
  bool any = false;
  for (const auto& [key, thing] : left) {
    if (right.contains(key)) continue;
    absl::PrintF("%c %s %s\n", mark, key.substr(0, 16), NameOf(thing));
    any = true;
  }
  return any;
}

// How a product runs by it. How long that took, and when, differs anywhere.
auto ChoiceOf(const jit::TuningRecord& record) {
  return std::tie(record.kernel, record.exchanged, record.splits,
                  record.raster_group, record.generation);
}

std::string Text(const jit::TuningRecord& record) {
  return absl::StrFormat("%s%s, %d parts of k, raster group %d, generation %d",
                         record.kernel, record.exchanged ? " exchanged" : "",
                         record.splits, record.raster_group, record.generation);
}

// Prints what both have and differs; true when there was something.
bool PrintDifferent(const Records& left, const Records& right) {
  bool any = false;
  for (const auto& [key, record] : left) {
    const auto found = right.find(key);
    if (found == right.end()) continue;
    if (ChoiceOf(record) == ChoiceOf(found->second)) continue;
    absl::PrintF("! %s %s: %s; %s\n", key.substr(0, 16), NameOf(record),
                 Text(record), Text(found->second));
    any = true;
  }
  return any;
}

absl::StatusOr<int> Run(const Flags& flags) {
  if (flags.positional().size() != 2) {
    return absl::InvalidArgumentError("give two cache directories");
  }
  const std::string& one = flags.positional()[0];
  const std::string& other = flags.positional()[1];
  ASSIGN_OR_RETURN(KernelList one_kernels, ListKernels(one));
  ASSIGN_OR_RETURN(KernelList other_kernels, ListKernels(other));
  int damaged = one_kernels.damaged + other_kernels.damaged;
  const Kernels left = ByKey(std::move(one_kernels));
  const Kernels right = ByKey(std::move(other_kernels));
  bool differ = PrintAlone('-', left, right);
  differ |= PrintAlone('+', right, left);
  const jit::DiskStore left_store = OpenToRead(one);
  const jit::DiskStore right_store = OpenToRead(other);
  for (const auto& [key, kernel] : left) {
    if (!right.contains(key)) continue;
    const auto a = ReadKernel(left_store, key, damaged);
    const auto b = ReadKernel(right_store, key, damaged);
    if (!a.has_value() || !b.has_value() || a->cubin == b->cubin) continue;
    absl::PrintF("! %s %s: cubins differ\n", key.substr(0, 16), kernel.name);
    differ = true;
  }
  const Records left_records = ByKey(ReadRecords(one, damaged));
  const Records right_records = ByKey(ReadRecords(other, damaged));
  differ |= PrintAlone('-', left_records, right_records);
  differ |= PrintAlone('+', right_records, left_records);
  differ |= PrintDifferent(left_records, right_records);
  return differ || damaged > 0 ? kExitIncomplete : kExitComplete;
}

}  // namespace

Command DiffCommand() {
  return {.name = "diff",
          .operands = "DIR DIR",
          .summary = "Compare two caches.",
          .details =
              "- only in the first, + only in the second, ! other "
              "bytes of a kernel under one key, or another choice of a tuning "
              "record. Exit code 1 when they differ, or something is "
              "damaged.\n",
          .flags = {},
          .run = Run};
}

}  // namespace gemmd::warmup
