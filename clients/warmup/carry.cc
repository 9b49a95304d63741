// gemm-warmup export and import: a cache as one file.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/warmup/command.h"
#include "clients/warmup/kernels.h"
#include "jit/base/file.h"
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

// A file beside `name`, to take its place once it is whole.
class NewFile {
 public:
  explicit NewFile(std::string name)
      : name_(std::move(name)),
        temporary_(absl::StrCat(name_, ".", getpid(), ".part")),
        file_(open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                   0666)) {}
  ~NewFile() {
    if (!kept_) unlink(temporary_.c_str());
  }

  absl::Status Write(absl::string_view bytes) {
    if (!file_.ok()) return absl::UnavailableError("cannot write " + name_);
    bytes_ += bytes.size();
    return jit::WriteAll(file_.get(), bytes);
  }
  absl::Status Keep() {
    if (rename(temporary_.c_str(), name_.c_str()) != 0) {
      return absl::UnavailableError("cannot write " + name_);
    }
    kept_ = true;
    return absl::OkStatus();
  }
  size_t bytes() const { return bytes_; }

 private:
  const std::string name_;
  const std::string temporary_;
  const jit::UniqueFd file_;
  size_t bytes_ = 0;
  bool kept_ = false;
};

absl::StatusOr<int> Export(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string directory, flags.Require("cache_dir"));
  if (flags.positional().size() != 1) {
    return absl::InvalidArgumentError("give one BUNDLE to write");
  }
  ASSIGN_OR_RETURN(const std::string signing_key, SigningKey(flags));
  ASSIGN_OR_RETURN(const KernelList list, ListKernels(directory));
  std::set<std::string> keys;
  for (const jit::EntrySummary& kernel : list.kernels) keys.insert(kernel.key);

  NewFile file(flags.positional()[0]);
  jit::BundleWriter bundle(
      [&file](absl::string_view bytes) { return file.Write(bytes); },
      signing_key);
  const jit::DiskStore store = OpenToRead(directory);
  int kernels = 0, damaged = list.damaged;
  for (const std::string& key : keys) {
    const absl::StatusOr<jit::CompiledKernel> kernel = store.Peek(key);
    if (!kernel.ok()) {
      ++damaged;
      absl::FPrintF(stderr, "%s: %s\n", key, kernel.status().message());
      continue;
    }
    ++kernels;
    RETURN_IF_ERROR(
        bundle.Add(absl::StrCat(kEntries, key), jit::EncodeEntry(*kernel)));
  }
  std::map<std::string, std::string> records;
  for (const jit::TuningRecord& record :
       jit::TuningStore(directory, /*read_only=*/true).All()) {
    records[NameOf(record)] = jit::EncodeTuningRecord(record);
  }
  for (const auto& [name, bytes] : records) {
    RETURN_IF_ERROR(bundle.Add(name, bytes));
  }
  RETURN_IF_ERROR(bundle.Finish());
  RETURN_IF_ERROR(file.Keep());
  absl::PrintF("%d kernels, %d tuning records, %d bytes, %s\n", kernels,
               records.size(), file.bytes(),
               signing_key.empty() ? "not signed" : "signed");
  return damaged == 0 ? kExitComplete : kExitIncomplete;
}

// Takes what a member holds; called with members that are what they say.
struct MemberTakers {
  std::function<absl::Status(const jit::CompiledKernel&)> kernel;
  std::function<absl::Status(const jit::TuningRecord&)> record;
};

absl::Status TakeMember(const jit::BundleMember& member,
                        const MemberTakers& take) {
  const auto misplaced = [&member] {
    return absl::DataLossError(
        absl::StrCat(member.name, " is not what it says"));
  };
  if (absl::StartsWith(member.name, kTuning)) {
    ASSIGN_OR_RETURN(const jit::TuningRecord record,
                     jit::DecodeTuningRecord(member.bytes));
    if (member.name != NameOf(record)) return misplaced();
    return take.record(record);
  }
  ASSIGN_OR_RETURN(const jit::CompiledKernel kernel,
                   jit::DecodeEntry(member.bytes));
  if (member.name != absl::StrCat(kEntries, kernel.key)) return misplaced();
  RETURN_IF_ERROR(jit::CheckCubin(kernel));
  return take.kernel(kernel);
}

// Reads the whole bundle in `file`, a member at a time.
absl::Status ReadBundle(const std::string& file, const std::string& signing_key,
                        const MemberTakers& take) {
  const jit::UniqueFd open(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!open.ok()) {
    return absl::NotFoundError(
        absl::StrCat("cannot read ", file, ": ", std::strerror(errno)));
  }
  jit::BundleReader reader(
      [&](char* to, size_t size) -> absl::StatusOr<size_t> {
        const ssize_t got = read(open.get(), to, size);
        if (got < 0) return jit::ErrnoStatus(errno, "read " + file);
        return static_cast<size_t>(got);
      },
      signing_key);
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<jit::BundleMember> member,
                     reader.Next());
    if (!member.has_value()) return absl::OkStatus();
    RETURN_IF_ERROR(TakeMember(*member, take));
  }
}

absl::StatusOr<int> Import(const Flags& flags) {
  ASSIGN_OR_RETURN(const std::string directory, flags.Require("cache_dir"));
  if (flags.positional().size() != 1) {
    return absl::InvalidArgumentError("give one BUNDLE to read");
  }
  const std::string& file = flags.positional()[0];
  ASSIGN_OR_RETURN(const std::string signing_key, SigningKey(flags));
  // All of it is verified before any of it is stored, so it is read twice.
  RETURN_IF_ERROR(
      ReadBundle(file, signing_key,
                 {.kernel = [](const auto&) { return absl::OkStatus(); },
                  .record = [](const auto&) { return absl::OkStatus(); }}));
  jit::DiskStore store({.directory = directory});
  const jit::TuningStore tuning(directory);
  int kernels = 0, there = 0, records = 0;
  RETURN_IF_ERROR(ReadBundle(file, signing_key,
                             {.kernel =
                                  [&](const jit::CompiledKernel& kernel) {
                                    ++kernels;
                                    if (!store.Peek(kernel.key).ok())
                                      return store.Store(kernel);
                                    ++there;
                                    return absl::OkStatus();
                                  },
                              .record =
                                  [&](const jit::TuningRecord& record) {
                                    ++records;
                                    return tuning.Put(record);
                                  }}));
  absl::PrintF("%d kernels: %d imported, %d there already; %d tuning records\n",
               kernels, kernels - there, there, records);
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
          "cache\ndirectory. The same kernels give the same bytes.\n",
      .flags = {CacheDirFlag(), SigningKeyFlag()},
      .run = Export};
}

Command ImportCommand() {
  return {.name = "import",
          .operands = "BUNDLE",
          .summary = "Add the kernels of a bundle to a cache.",
          .details =
              "Nothing is added when any part of the file is wrong, or when\n"
              "it is not signed with the key that is given.\n",
          .flags = {CacheDirFlag(), SigningKeyFlag()},
          .run = Import};
}

}  // namespace gemmd::warmup
