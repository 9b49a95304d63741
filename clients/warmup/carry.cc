// gemm-warmup export and import: a cache as one file.
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/new_file.h"
#include "clients/warmup/bundle_file.h"
#include "clients/warmup/command.h"
#include "clients/warmup/kernels.h"
#include "clients/warmup/written.h"
#include "jit/base/status.h"
#include "jit/cache/bundle.h"
#include "jit/cache/disk_store.h"
#include "jit/cache/entry.h"
#include "jit/cache/tuning_store.h"

namespace gemmd::warmup {
namespace {

// The key that bundles are signed with; empty when none was given.
absl::StatusOr<std::string> SigningKey(const Flags& flags) {
  const std::string file = flags.Get("signing_key_file", "");
  if (file.empty()) return "";
  ASSIGN_OR_RETURN(std::string key, ReadFile(file));
  absl::StripTrailingAsciiWhitespace(&key);
  if (key.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--signing-key-file ", file, " is empty"));
  }
  return key;
}

absl::StatusOr<int> Export(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string directory, flags.Require("cache_dir"));
  if (flags.positional().size() != 1) {
    return absl::InvalidArgumentError("give one BUNDLE to write");
  }
  ASSIGN_OR_RETURN(const std::string signing_key, SigningKey(flags));
  ASSIGN_OR_RETURN(const KernelList list, ListKernels(directory));
  std::set<std::string> keys;
  for (const jit::EntrySummary& kernel : list.kernels) keys.insert(kernel.key);

  const std::string& path = flags.positional()[0];
  ASSIGN_OR_RETURN(cli::NewFile file, cli::NewFile::Create(path));
  jit::BundleWriter bundle(
      [&file](absl::string_view bytes) { return file.Write(bytes); },
      signing_key);
  const jit::DiskStore store = OpenToRead(directory);
  int kernels = 0, damaged = list.damaged;
  for (const std::string& key : keys) {
    const auto kernel = ReadKernel(store, key, damaged);
    if (!kernel.has_value()) continue;
    ++kernels;
    RETURN_IF_ERROR(bundle.Add(MemberName(*kernel), jit::EncodeEntry(*kernel)));
  }
  std::map<std::string, std::string> records;
  for (const jit::TuningRecord& record : ReadRecords(directory, damaged)) {
    records[MemberName(record)] = jit::EncodeTuningRecord(record);
  }
  for (const auto& [name, bytes] : records) {
    RETURN_IF_ERROR(bundle.Add(name, bytes));
  }
  RETURN_IF_ERROR(bundle.Finish());
  RETURN_IF_ERROR(file.Keep());
  absl::FPrintF(path == "-" ? stderr : stdout,
                "%d kernels, %d tuning records, %d bytes, %s\n", kernels,
                records.size(), file.bytes(),
                signing_key.empty() ? "not signed" : "signed");
  return damaged == 0 ? kExitComplete : kExitIncomplete;
}

absl::StatusOr<int> Import(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string directory, flags.Require("cache_dir"));
  if (flags.positional().size() != 1) {
    return absl::InvalidArgumentError("give one BUNDLE to read");
  }
  ASSIGN_OR_RETURN(const std::optional<int64_t> limit, LimitGiven(flags));
  ASSIGN_OR_RETURN(const std::string signing_key, SigningKey(flags));
  const std::string& path = flags.positional()[0];
  ASSIGN_OR_RETURN(BundleFile file, BundleFile::Open(path, directory));
  // All of it is verified before any of it is stored, so it is read twice.
  const absl::Status valid = file.Read(
      signing_key, {.kernel = [](const auto&) { return absl::OkStatus(); },
                    .record = [](const auto&) { return absl::OkStatus(); }});
  if (!valid.ok()) {
    return absl::Status(valid.code(),
                        absl::StrCat(path, ": ", valid.message()));
  }
  jit::DiskStore store({.directory = directory, .limit_bytes = limit});
  // What a cache says of an error names no path.
  const auto in_directory = [&directory](const absl::Status& status) {
    return status.ok()
               ? status
               : absl::Status(status.code(),
                              absl::StrCat(directory, ": ", status.message()));
  };
  // Who writes records learns the limit too.
  if (limit) RETURN_IF_ERROR(in_directory(store.Collect().status()));
  const jit::TuningStore tuning(directory);
  Written written(directory);
  int kernels = 0, there = 0, records = 0, outdated = 0;
  const auto take_kernel = [&](const jit::CompiledKernel& kernel) {
    ++kernels;
    written.Add(kernel);
    // It counts as used: what is there already is not what leaves first.
    const bool found = store.Load(kernel.key).ok();
    there += found;
    return found ? absl::OkStatus() : in_directory(store.Store(kernel));
  };
  const auto take_record = [&](const jit::TuningRecord& record) {
    ++records;
    written.Add(record);
    const absl::StatusOr<jit::TuningRecord> kept = tuning.Put(record);
    outdated += kept.ok() && *kept != record;
    return in_directory(kept.status());
  };
  RETURN_IF_ERROR(
      file.Read(signing_key, {.kernel = take_kernel, .record = take_record}));
  absl::PrintF(
      "%d kernels: %d imported, %d there already; %d tuning records: %d "
      "imported, %d that give way to what is there\n",
      kernels, kernels - there, there, records, records - outdated, outdated);
  RETURN_IF_ERROR(written.CheckKept());
  return kExitComplete;
}

FlagSpec SigningKeyFlag() {
  return {"signing_key_file", "FILE",
          "the key of the bundle's signature; default: none is made or asked "
          "for"};
}

}  // namespace

Command ExportCommand() {
  return {
      .name = "export",
      .operands = "BUNDLE",
      .summary = "Write a cache as one file.",
      .details =
          "The file is a tar archive, compressed by zstd: unpacked, it is a "
          "cache\ndirectory. The same kernels give the same bytes. - is "
          "standard output.\n",
      .flags = {CacheDirFlag(), SigningKeyFlag()},
      .run = Export};
}

Command ImportCommand() {
  return {.name = "import",
          .operands = "BUNDLE",
          .summary = "Add the kernels of a bundle to a cache.",
          .details =
              "Nothing is added when any part of the file is wrong, or when\n"
              "it is not signed with the key that is given. A tuning record "
              "of a lower\ngeneration, or of other parts of k in the same one, "
              "replaces none.\n- is standard input.\n",
          .flags = {NewCacheDirFlag(), LimitFlag(), SigningKeyFlag()},
          .run = Import};
}

}  // namespace gemmd::warmup
