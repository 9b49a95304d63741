#include "service/daemon/problem_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "jit/base/status.h"
#include "jit/problem/arithmetic.h"
#include "jit/problem/group_line.h"
#include "jit/problem/problem_line.h"

namespace gemmd::daemon {
namespace {

// Bounds memory and file; a service with more shapes learns nothing from more
// lines.
constexpr size_t kMaxLines = 65536;
// Before the kernel that a group needed, by which lines of groups are known.
constexpr char kKernelComment[] = "  # ";

// Many times what so many lines take: a larger file holds something else.
constexpr int64_t kMaxFileBytes = int64_t{64} << 20;
// Longer than any line, be it of a group.
constexpr size_t kMaxLineBytes = 65536;

absl::Status NoList(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat("--record-problems: ", path,
                   " is no list of problems; allowed: one, or no file yet"));
}

bool IsText(absl::string_view bytes) {
  return absl::c_all_of(bytes, [](unsigned char byte) {
    return byte >= 0x20 || absl::ascii_isspace(byte);
  });
}

// Whether a crash may have left this of a line: it begins with a type, or with
// the beginning of one.
bool IsTorn(absl::string_view line) {
  if (line.size() > kMaxLineBytes) return false;
  const size_t space = line.find(' ');
  const absl::string_view word = line.substr(0, space);
  return absl::c_any_of(jit::Arithmetics(), [&](const auto& arithmetic) {
    const std::string name = Name(arithmetic);
    return space == line.npos ? absl::StartsWith(name, word) : name == word;
  });
}

// Ends the last line of the file at `path`, which holds `text`, or removes what
// a crash left of it: nothing may become the start of another line.
absl::Status RepairEnd(const std::string& path, absl::string_view text,
                       int fd) {
  const size_t last = text.rfind('\n') + 1;  // 0 where there is one line.
  const absl::string_view line = text.substr(last);
  if (line.empty()) return absl::OkStatus();
  if (jit::ParseProblemList(line).ok()) return jit::WriteAll(fd, "\n");
  if (!IsTorn(line)) return NoList(path);
  if (ftruncate(fd, static_cast<off_t>(last)) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "--record-problems: cannot cut the file");
}

// What lines are known by.
std::set<std::string> KeysOf(absl::string_view text) {
  std::set<std::string> keys;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (keys.size() >= kMaxLines) break;
    const size_t comment = line.find(kKernelComment);
    keys.emplace(comment == line.npos
                     ? line
                     : line.substr(comment + sizeof kKernelComment - 1));
  }
  return keys;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProblemLog>> ProblemLog::Open(
    const std::string& path) {
  // What is no file of bytes neither blocks nor is read, maybe without end.
  jit::UniqueFd file(open(path.c_str(),
                          O_RDWR | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC,
                          0600));
  struct stat facts;
  if (!file.ok() || fstat(file.get(), &facts) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--record-problems: cannot read and write ", path));
  }
  if (!S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--record-problems: ", path, " is no regular file; allowed: one"));
  }
  if (facts.st_size > kMaxFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--record-problems: ", path, " has ", facts.st_size,
        " bytes, more than a list of problems; allowed: 0 to ", kMaxFileBytes));
  }
  ASSIGN_OR_RETURN(const std::string text,
                   jit::ReadAll(file.get(), kMaxFileBytes));
  if (!IsText(text)) return NoList(path);
  RETURN_IF_ERROR(RepairEnd(path, text, file.get()));
  return std::unique_ptr<ProblemLog>(
      new ProblemLog(std::move(file), KeysOf(text)));
}

void ProblemLog::Note(const jit::Problem& problem) {
  const std::string line = jit::ProblemLine(problem);
  Write(line, line);
}

void ProblemLog::Note(absl::Span<const jit::Problem> group,
                      const std::string& kernel) {
  Write(kernel, absl::StrCat(jit::GroupLine(group), kKernelComment, kernel));
}

void ProblemLog::Write(const std::string& key, std::string line) {
  std::lock_guard lock(mutex_);
  if (known_.size() >= kMaxLines || !known_.insert(key).second) return;
  writer_.Schedule([this, line = std::move(line)] {
    struct stat before;
    if (fstat(file_.get(), &before) != 0) return;
    if (jit::WriteAll(file_.get(), line + "\n").ok()) return;
    // A full disk loses lines, nothing else: not the next one to a part of
    // this one.
    [[maybe_unused]] const int cut = ftruncate(file_.get(), before.st_size);
  });
}

}  // namespace gemmd::daemon
