#include "clients/warmup/bundle_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "jit/base/sha256.h"
#include "jit/base/status.h"
#include "jit/cache/bundle.h"
#include "jit/cache/entry.h"
#include "jit/compile/cubin.h"

namespace gemmd::warmup {
namespace {

constexpr char kEntries[] = "entries/";
constexpr char kTuning[] = "tuning/";

absl::Status TakeMember(const jit::BundleMember& member,
                        const MemberTakers& take) {
  const auto misplaced = [&member] {
    return absl::DataLossError(
        absl::StrCat(member.name, " is not what it says"));
  };
  if (absl::StartsWith(member.name, kTuning)) {
    ASSIGN_OR_RETURN(const jit::TuningRecord record,
                     jit::DecodeTuningRecord(member.bytes));
    if (member.name != MemberName(record)) return misplaced();
    return take.record(record);
  }
  ASSIGN_OR_RETURN(const jit::CompiledKernel kernel,
                   jit::DecodeEntry(member.bytes));
  if (member.name != MemberName(kernel)) return misplaced();
  RETURN_IF_ERROR(jit::CheckCubin(kernel));
  return take.kernel(kernel);
}

// A file of no name in `directory`, which is made. Not by O_TMPFILE, which
// network file systems lack.
absl::StatusOr<jit::UniqueFd> Temporary(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  std::string name = directory + "/import-XXXXXX";
  jit::UniqueFd file(mkostemp(name.data(), O_CLOEXEC));
  if (!file.ok()) return jit::ErrnoStatus(errno, "write to " + directory);
  unlink(name.c_str());
  return file;
}

absl::StatusOr<jit::UniqueFd> Copy(const jit::UniqueFd& from,
                                   const std::string& path,
                                   const std::string& directory) {
  if (absl::Status endless = jit::CheckEnds(from.get()); !endless.ok()) {
    return absl::Status(endless.code(),
                        absl::StrCat(path, ": ", endless.message()));
  }
  ASSIGN_OR_RETURN(jit::UniqueFd to, Temporary(directory));
  std::vector<char> buffer(1 << 20);
  while (true) {
    const ssize_t got = read(from.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return jit::ErrnoStatus(errno, "read " + path);
    if (got == 0) return to;
    const absl::Status written =
        jit::WriteAll(to.get(), {buffer.data(), static_cast<size_t>(got)});
    if (!written.ok()) {
      return absl::Status(written.code(),
                          absl::StrCat(directory, ": ", written.message()));
    }
  }
}

}  // namespace

std::string MemberName(const jit::CompiledKernel& kernel) {
  return kEntries + kernel.key;
}

std::string MemberName(const jit::TuningRecord& record) {
  return kTuning + jit::TuningKey(record.problem_class, record.device,
                                  record.template_digest);
}

absl::StatusOr<BundleFile> BundleFile::Open(const std::string& path,
                                            const std::string& directory) {
  jit::UniqueFd file(path == "-" ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                 : open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat facts;
  if (!file.ok() || fstat(file.get(), &facts) != 0) {
    return jit::ErrnoStatus(errno, "read " + path);
  }
  // Reading a folder tells what is wrong with it.
  if (!S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode)) {
    ASSIGN_OR_RETURN(file, Copy(file, path, directory));
  }
  return BundleFile(std::move(file), path);
}

absl::Status BundleFile::Read(const std::string& signing_key,
                              const MemberTakers& take) {
  std::vector<std::string> digests;
  off_t at = 0;
  jit::BundleReader reader(
      [&](char* to, size_t size) -> absl::StatusOr<size_t> {
        const ssize_t got = pread(file_.get(), to, size, at);
        if (got < 0) return jit::ErrnoStatus(errno, "read " + path_);
        at += got;
        return static_cast<size_t>(got);
      },
      signing_key);
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<jit::BundleMember> member,
                     reader.Next());
    if (!member.has_value()) break;
    const size_t place = digests.size();
    digests.push_back(
        jit::Sha256Of(absl::StrCat(member->name, "\n", member->bytes)));
    if (digests_ &&
        (place >= digests_->size() || digests.back() != (*digests_)[place])) {
      return absl::DataLossError(path_ + " changes while it is read");
    }
    RETURN_IF_ERROR(TakeMember(*member, take));
  }
  digests_ = std::move(digests);
  return absl::OkStatus();
}

}  // namespace gemmd::warmup
