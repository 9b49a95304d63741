#include "service/daemon/problem_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "jit/problem/group_line.h"
#include "jit/problem/problem_line.h"

namespace gemmd::daemon {
namespace {

// Bounds memory and file; a service with more shapes learns nothing from more
// lines.
constexpr size_t kMaxLines = 65536;
// Before the kernel that a group needed, by which lines of groups are known.
constexpr char kKernelComment[] = "  # ";

// Ends the last line of the file at `path`, or removes what a crash left of it:
// nothing may become the start of another line.
absl::Status RepairEnd(const std::string& path, int fd) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const size_t last = text.rfind('\n') + 1;  // 0 where there is one line.
  if (last == text.size()) return absl::OkStatus();
  if (jit::ParseProblemList(text.substr(last)).ok()) {
    return jit::WriteAll(fd, "\n");
  }
  if (ftruncate(fd, static_cast<off_t>(last)) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "--record-problems: cannot cut the file");
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProblemLog>> ProblemLog::Open(
    const std::string& path) {
  // What is no file of bytes neither blocks nor is read, maybe without end.
  jit::UniqueFd file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC,
           0600));
  struct stat facts;
  if (!file.ok() || fstat(file.get(), &facts) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--record-problems: cannot write ", path));
  }
  if (!S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--record-problems: ", path, " is no regular file; allowed: one"));
  }
  RETURN_IF_ERROR(RepairEnd(path, file.get()));
  std::set<std::string> known;
  std::ifstream old(path);
  for (std::string line; std::getline(old, line);) {
    const size_t comment = line.find(kKernelComment);
    known.insert(comment == line.npos
                     ? line
                     : line.substr(comment + sizeof kKernelComment - 1));
  }
  return std::unique_ptr<ProblemLog>(
      new ProblemLog(std::move(file), std::move(known)));
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
