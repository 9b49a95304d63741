#include "clients/gemmctl/outputs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {
namespace {

namespace fs = std::filesystem;

constexpr char kStandard[] = "-";

// Equal for names of one file: by its inode, or where there is none yet by
// where it will be.
std::string PlaceOf(const std::string& name) {
  struct stat facts;
  if ((name == kStandard ? fstat(STDOUT_FILENO, &facts)
                         : stat(name.c_str(), &facts)) == 0) {
    return absl::StrCat(facts.st_dev, ":", facts.st_ino);
  }
  // Names of nothing stay relative where that is all there is of them.
  std::error_code error;
  const fs::path from_root = fs::absolute(cli::FollowLinks(name), error);
  const fs::path place = fs::weakly_canonical(from_root, error);
  return error ? name : place.string();
}

}  // namespace

absl::Status CheckOutputs(absl::Span<const std::string> names) {
  std::map<std::string, std::string> written;  // By their places.
  for (const std::string& name : names) {
    if (name.empty()) continue;
    const auto [other, is_new] = written.emplace(PlaceOf(name), name);
    if (is_new) continue;
    if (name == kStandard && other->second == name) {
      return absl::InvalidArgumentError(
          "only one result can go to standard output");
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "several results go to ", name,
        other->second == name ? "" : absl::StrCat(", which is ", other->second),
        "; allowed: a file or tensor for each"));
  }
  return absl::OkStatus();
}

absl::Status Outputs::Write(const std::string& path, const Matrix& matrix) {
  ASSIGN_OR_RETURN(cli::NewFile file, StartNpy(path, matrix));
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status Outputs::Keep() {
  for (cli::NewFile& file : files_) RETURN_IF_ERROR(file.Keep());
  return absl::OkStatus();
}

}  // namespace gemmd::gemmctl
