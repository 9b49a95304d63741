// gemm-warmup export and import: a cache as one file.
#include <cstdio>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/warmup/command.h"
#include "clients/warmup/kernels.h"
#include "jit/base/status.h"
#include "jit/cache/bundle.h"
#include "jit/cache/disk_store.h"
#include "jit/cache/entry.h"
#include "jit/cache/tuning_store.h"
#include "jit/compile/cubin.h"
#include "jit/plan/tuning_record.h"

namespace gemmd::warmup {
namespace {

constexpr char kEntries[] = "entries/";
constexpr char kTuning[] = "tuning/";

std::string NameOf(const jit::TuningRecord& record) {
  return absl::StrCat(kTuning,
                      jit::TuningKey(record.problem_class, record.device,
                                     record.template_digest));
}

absl::StatusOr<int> Export(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string directory, flags.Require("cache_dir"));
  if (flags.positional().size() != 1) {
    return absl::InvalidArgumentError("give one BUNDLE to write");
  }
  ASSIGN_OR_RETURN(const KernelSet set, LoadKernels(directory));
  jit::BundleMembers members;
  for (const jit::CompiledKernel& kernel : set.kernels) {
    members[absl::StrCat(kEntries, kernel.key)] = jit::EncodeEntry(kernel);
  }
  const jit::TuningStore tuning(directory, /*read_only=*/true);
  const std::vector<jit::TuningRecord> records = tuning.All();
  for (const jit::TuningRecord& record : records) {
    members[NameOf(record)] = jit::EncodeTuningRecord(record);
  }
  const std::string bundle = jit::EncodeBundle(members);
  const std::string& name = flags.positional()[0];
  std::ofstream file(name, std::ios::binary | std::ios::trunc);
  file.write(bundle.data(), static_cast<std::streamsize>(bundle.size()));
  file.close();
  if (!file) return absl::UnavailableError(absl::StrCat("cannot write ", name));
  absl::PrintF("%d kernels, %d tuning records, %d bytes\n", set.kernels.size(),
               records.size(), bundle.size());
  return set.damaged == 0 ? kExitComplete : kExitIncomplete;
}

struct Content {
  std::vector<jit::CompiledKernel> kernels;
  std::vector<jit::TuningRecord> records;
};

// What `members` hold, verified as if it came from disk.
absl::StatusOr<Content> Decode(const jit::BundleMembers& members) {
  const auto misplaced = [](const std::string& name) {
    return absl::DataLossError(absl::StrCat(name, " is not what it says"));
  };
  Content content;
  for (const auto& [name, bytes] : members) {
    if (absl::StartsWith(name, kTuning)) {
      ASSIGN_OR_RETURN(jit::TuningRecord record,
                       jit::DecodeTuningRecord(bytes));
      if (name != NameOf(record)) return misplaced(name);
      content.records.push_back(std::move(record));
    } else {
      ASSIGN_OR_RETURN(jit::CompiledKernel kernel, jit::DecodeEntry(bytes));
      if (name != absl::StrCat(kEntries, kernel.key)) return misplaced(name);
      RETURN_IF_ERROR(jit::CheckCubin(kernel));
      content.kernels.push_back(std::move(kernel));
    }
  }
  return content;
}

absl::StatusOr<int> Import(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string directory, flags.Require("cache_dir"));
  if (flags.positional().size() != 1) {
    return absl::InvalidArgumentError("give one BUNDLE to read");
  }
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(flags.positional()[0]));
  ASSIGN_OR_RETURN(const jit::BundleMembers members, jit::DecodeBundle(bytes));
  // All of it is verified before any of it is stored.
  ASSIGN_OR_RETURN(const Content content, Decode(members));
  jit::DiskStore store({.directory = directory});
  int there = 0;
  for (const jit::CompiledKernel& kernel : content.kernels) {
    if (store.Load(kernel.key).ok()) {
      ++there;
    } else {
      RETURN_IF_ERROR(store.Store(kernel));
    }
  }
  const jit::TuningStore tuning(directory);
  for (const jit::TuningRecord& record : content.records) {
    RETURN_IF_ERROR(tuning.Put(record));
  }
  absl::PrintF("%d kernels: %d imported, %d there already; %d tuning records\n",
               content.kernels.size(), content.kernels.size() - there, there,
               content.records.size());
  return kExitComplete;
}

}  // namespace

Command ExportCommand() {
  return {.name = "export",
          .operands = "BUNDLE",
          .summary = "Write a cache as one file.",
          .details =
              "The file is a tar archive: unpacked, it is a cache "
              "directory. The same\nkernels give the same bytes.\n",
          .flags = {CacheDirFlag()},
          .run = Export};
}

Command ImportCommand() {
  return {.name = "import",
          .operands = "BUNDLE",
          .summary = "Add the kernels of a bundle to a cache.",
          .details = "Nothing is added when any part of the file is wrong.\n",
          .flags = {CacheDirFlag()},
          .run = Import};
}

}  // namespace gemmd::warmup
