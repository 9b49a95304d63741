#include "service/daemon/problem_log.h"

#include <fcntl.h>

#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/problem/problem_line.h"

namespace gemmd::daemon {
namespace {

// Bounds memory and file; a service with more shapes learns nothing from more
// lines.
constexpr size_t kMaxLines = 65536;

}  // namespace

absl::StatusOr<std::unique_ptr<ProblemLog>> ProblemLog::Open(
    const std::string& path) {
  std::set<std::string> lines;
  std::ifstream old(path);
  for (std::string line; std::getline(old, line);) lines.insert(line);
  jit::UniqueFd file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!file.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--record-problems: cannot write ", path));
  }
  return std::unique_ptr<ProblemLog>(
      new ProblemLog(std::move(file), std::move(lines)));
}

void ProblemLog::Note(const jit::Problem& problem) {
  std::string line = jit::ProblemLine(problem);
  std::lock_guard lock(mutex_);
  if (lines_.size() >= kMaxLines || !lines_.insert(line).second) return;
  // A full disk loses lines, nothing else.
  writer_.Schedule([this, line = std::move(line)] {
    jit::WriteAll(file_.get(), line + "\n").IgnoreError();
  });
}

}  // namespace gemmd::daemon
