#include "jit/compile/nvrtc_files.h"

#include <fcntl.h>

#include <filesystem>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "jit/base/sha256.h"
#include "jit/base/status.h"
#include "jit/compile/file_digest.h"

namespace gemmd::jit {
namespace {

// What a note of a version is called, and what one of builtins.
constexpr char kVersionNote[] = "nvrtc";
constexpr char kBuiltins[] = "builtins";

// Open for reading, at a number that no worker uses for something else.
UniqueFd OpenToKeep(const std::string& path) {
  constexpr int kLeast = 16;
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return UniqueFd(fcntl(file.get(), F_DUPFD_CLOEXEC, kLeast));
}

bool SameContent(int file, const FileStamp& stamp) {
  const absl::StatusOr<FileStamp> now = StampOf(file);
  // The time of change is that of the last link too, which a replacement takes
  // away from a file that stays as it is.
  return now.ok() && now->bytes == stamp.bytes &&
         now->modified_ns == stamp.modified_ns;
}

// "13.0 <name of the builtins' stamp>".
std::string NoteOf(NvrtcVersion version, const FileStamp& builtins) {
  return absl::StrCat(version.major, ".", version.minor, " ",
                      NameOf(kBuiltins, builtins));
}

// Of a note that may say anything.
std::optional<NvrtcVersion> VersionOf(absl::string_view note) {
  const std::pair<absl::string_view, absl::string_view> numbers =
      absl::StrSplit(note.substr(0, note.find(' ')), absl::MaxSplits('.', 1));
  NvrtcVersion version;
  if (absl::SimpleAtoi(numbers.first, &version.major) &&
      absl::SimpleAtoi(numbers.second, &version.minor)) {
    return version;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<NvrtcFiles> NvrtcFiles::Open(const std::string& library,
                                            const std::string& builtins,
                                            NvrtcVersion version) {
  NvrtcFiles files;
  files.version_ = version;
  files.file_ = library;
  auto open = std::make_shared<OpenFiles>();
  open->library = OpenToKeep(library);
  if (!open->library.ok()) {
    return absl::FailedPreconditionError("libnvrtc is not backed by a file");
  }
  ASSIGN_OR_RETURN(open->library_stamp, StampOf(open->library.get()));
  if (!builtins.empty()) open->builtins = OpenToKeep(builtins);
  if (open->builtins.ok()) {
    ASSIGN_OR_RETURN(open->builtins_stamp, StampOf(open->builtins.get()));
  }
  files.open_ = std::move(open);
  return files;
}

std::optional<NvrtcFiles> NvrtcFiles::Recall(const std::string& library,
                                             const std::string& memory) {
  std::error_code error;
  const std::string file = std::filesystem::canonical(library, error);
  if (error) return std::nullopt;
  // Which builtins belong to it, its version says.
  absl::StatusOr<NvrtcFiles> files = Open(file, "", {});
  if (!files.ok()) return std::nullopt;
  const FileStamp stamp = files->open_->library_stamp;
  const std::string note =
      FileNotes(memory).Recall(NameOf(kVersionNote, stamp));
  const std::optional<NvrtcVersion> version = VersionOf(note);
  if (!version) return std::nullopt;
  files = Open(file, BuiltinsBeside(file, *version), *version);
  // Replaced in between, or other builtins than were loaded.
  if (!files.ok() || files->open_->library_stamp != stamp ||
      !files->open_->builtins.ok() ||
      note != NoteOf(*version, files->open_->builtins_stamp)) {
    return std::nullopt;
  }
  return *std::move(files);
}

void NvrtcFiles::Remember(const FileStamp& stamp,
                          const std::string& memory) const {
  if (stamp != open_->library_stamp || !open_->builtins.ok()) return;
  const FileStamp& builtins = open_->builtins_stamp;
  const FileStamp& latest =
      builtins.changed_ns > stamp.changed_ns ? builtins : stamp;
  FileNotes(memory).Note(NameOf(kVersionNote, stamp), latest,
                         NoteOf(version_, builtins));
}

bool NvrtcFiles::Unchanged() const {
  return SameContent(library_file(), open_->library_stamp) &&
         (!open_->builtins.ok() ||
          SameContent(builtins_file(), open_->builtins_stamp));
}

std::string NvrtcFiles::ReadIdentity(const std::string& memory) const {
  const std::string name =
      absl::StrCat("NVRTC ", version_.major, ".", version_.minor);
  // By their roles, not by their names.
  std::string digests;
  for (const int file : {library_file(), builtins_file()}) {
    if (file < 0) continue;
    const absl::StatusOr<std::string> digest = DigestOfFile(file, memory);
    if (!digest.ok()) {
      std::random_device random;
      return absl::StrCat(name, " unidentified:", absl::Hex(random()),
                          absl::Hex(random()));
    }
    digests += *digest;
  }
  return absl::StrCat(name,
                      " sha256:", absl::BytesToHexString(Sha256Of(digests)));
}

std::string BuiltinsBeside(const std::string& file, NvrtcVersion version) {
  return std::filesystem::path(file).parent_path() /
         absl::StrCat("libnvrtc-builtins.so.", version.major, ".",
                      version.minor);
}

}  // namespace gemmd::jit
