#include "jit/compile/compile_log.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "jit/source/instance.h"

namespace gemmd::jit {
namespace {

// The number just before `suffix`: 18044 in "..., 18044 bytes spill stores,
// ...". False when there is none.
bool NumberBefore(absl::string_view line, absl::string_view suffix,
                  int& number) {
  const size_t end = line.find(suffix);
  if (end == line.npos) return false;
  size_t begin = end;
  while (begin > 0 && absl::ascii_isdigit(line[begin - 1])) --begin;
  return absl::SimpleAtoi(line.substr(begin, end - begin), &number);
}

// Codes C7500 to C7599 are about warpgroup instructions: serialised wgmma
// (C7510, C7511, C7514), waits and fences that ptxas had to add (C7517,
// C7519), setmaxnreg that it ignored (C7507, C7508).
bool IsWarpgroupComplaint(absl::string_view line) {
  const size_t at = line.find("(C75");
  return at != line.npos && line.size() > at + 6 && line[at + 6] == ')';
}

}  // namespace

absl::StatusOr<KernelResources> ReadCompileLog(absl::string_view log) {
  KernelResources resources;
  bool in_kernel = false, has_spills = false, has_registers = false;
  std::string complaints;
  const std::string entry =
      absl::StrCat("entry function '", kKernelSymbol, "'");
  for (absl::string_view line : absl::StrSplit(log, '\n')) {
    if (IsWarpgroupComplaint(line)) {
      absl::StrAppend(&complaints, "\n", absl::StripAsciiWhitespace(line));
    }
    if (absl::StrContains(line, "Compiling entry function")) {
      in_kernel = absl::StrContains(line, entry);
    }
    int stores = 0, loads = 0;
    if (NumberBefore(line, " bytes spill stores", stores) &&
        NumberBefore(line, " bytes spill loads", loads)) {
      // Those of every function count: the kernel may call it.
      resources.spill_bytes += stores + loads;
      has_spills = true;
    }
    if (in_kernel && absl::StrContains(line, "Used ") &&
        NumberBefore(line, " registers", resources.registers)) {
      has_registers = true;
      NumberBefore(line, " bytes smem", resources.static_shared_memory_bytes);
    }
  }
  if (!complaints.empty()) {
    return absl::InternalError(absl::StrCat(
        "the kernel's warpgroup instructions are slowed down:", complaints));
  }
  if (!has_registers || !has_spills) {
    return absl::InternalError(absl::StrCat(
        "the compiler's log does not describe ", kKernelSymbol, ":\n", log));
  }
  if (resources.spill_bytes > 0) {
    return absl::InternalError(
        absl::StrCat("the kernel spills ", resources.spill_bytes,
                     " bytes of registers to local memory"));
  }
  return resources;
}

}  // namespace gemmd::jit
