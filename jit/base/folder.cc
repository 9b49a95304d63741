#include "jit/base/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gemmd::jit {
namespace {

constexpr int64_t kBlockBytes = 4096;
// More than the clocks of machines that share a folder differ by.
constexpr absl::Duration kClockSkew = absl::Hours(1);

// Whether anybody could have put a folder of `owner` into `directory`.
bool MayBeAnybodys(const std::string& directory, uid_t owner) {
  struct stat facts;
  if (owner == 0 || owner == geteuid()) return false;
  return stat(directory.c_str(), &facts) != 0 ||
         ((facts.st_mode & S_IWOTH) != 0 && facts.st_uid != owner);
}

}  // namespace

absl::StatusOr<UniqueFd> OpenFolder(const std::string& directory,
                                    const char* name, FolderAccess access) {
  const std::string path = absl::StrCat(directory, "/", name);
  if (access == FolderAccess::kCreate) {
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      return ErrnoStatus(errno, absl::StrCat("create the folder ", name));
    }
  }
  UniqueFd folder(
      open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.ok()) {
    return ErrnoStatus(errno, absl::StrCat("open the folder ", name));
  }
  struct stat facts;
  if (fstat(folder.get(), &facts) != 0) {
    return ErrnoStatus(errno, absl::StrCat("stat the folder ", name));
  }
  const bool foreign = access == FolderAccess::kRead
                           ? MayBeAnybodys(directory, facts.st_uid)
                           : facts.st_uid != geteuid();
  if (foreign || (facts.st_mode & 022) != 0) {
    return absl::InternalError(
        absl::StrCat("folder ", name,
                     " belongs to another user or can be written by others"));
  }
  return folder;
}

absl::StatusOr<UniqueFd> OpenOwnFile(const std::string& directory,
                                     const char* name) {
  const std::string path = absl::StrCat(directory, "/", name);
  // O_NONBLOCK: a device that someone put there must not be waited for.
  UniqueFd file(open(path.c_str(),
                     O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                     0600));
  struct stat facts;
  if (!file.ok() || fstat(file.get(), &facts) != 0) {
    return ErrnoStatus(errno, absl::StrCat("open the cache's file ", name));
  }
  if (!S_ISREG(facts.st_mode) || facts.st_uid != geteuid() ||
      facts.st_nlink > 1) {
    return absl::InternalError(
        absl::StrCat("the cache's file ", name,
                     " is no file, another user's, or lies elsewhere too"));
  }
  return file;
}

absl::StatusOr<std::vector<std::string>> ReadNames(const UniqueFd& folder) {
  // The stream owns the descriptor that it is given.
  const int copy =
      openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return ErrnoStatus(errno, "open a folder");
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(copy), closedir);
  std::vector<std::string> names;
  while (stream != nullptr) {
    errno = 0;
    const dirent* const entry = readdir(stream.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) return ErrnoStatus(errno, "read a folder");
  return names;
}

std::vector<std::string> NamesIn(const UniqueFd& folder) {
  return ReadNames(folder).value_or(std::vector<std::string>());
}

std::vector<FileUse> UsesIn(const UniqueFd& folder, absl::Time now) {
  std::vector<FileUse> uses;
  for (std::string& name : NamesIn(folder)) {
    struct stat facts;
    if (fstatat(folder.get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;  // Gone meanwhile.
    }
    uses.push_back({.name = std::move(name),
                    .bytes = BytesOnDisk(facts.st_size),
                    .used = absl::TimeFromTimespec(facts.st_mtim)});
  }
  const absl::Time latest = now + kClockSkew;
  const auto rank = [latest](const FileUse& use) {
    return std::tuple<bool, absl::Time, const std::string&>(use.used <= latest,
                                                            use.used, use.name);
  };
  std::sort(uses.begin(), uses.end(),
            [&rank](const FileUse& a, const FileUse& b) {
              return rank(a) < rank(b);
            });
  return uses;
}

int64_t BytesOnDisk(int64_t bytes) {
  return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

}  // namespace gemmd::jit
