#include "service/daemon/problem_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "jit/base/of_option.h"
#include "jit/base/status.h"
#include "jit/base/text.h"
#include "jit/problem/arithmetic.h"
#include "jit/problem/group_line.h"
#include "jit/problem/problem_line.h"
#include "service/log/log.h"

namespace gemmd::daemon {
namespace {

// Bounds memory and file; a service with more shapes learns nothing from more
// lines. As --help and the log say.
constexpr size_t kMaxLines = 65536;
// Before the kernel that a group needed, by which lines of groups are known.
constexpr char kKernelComment[] = "  # ";

// More than all lines of single products take, and not more than lines of
// groups can: a larger file holds something else.
constexpr int64_t kMaxFileBytes = int64_t{64} << 20;
// Longer than any line, be it of a group.
constexpr size_t kMaxLineBytes = 65536;

constexpr char kOption[] = "--record-problems";

absl::Status NoList(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "it is no list of problems: ", why, "; allowed: one, or no file yet"));
}

// OK where `text` is text to its end.
absl::Status CheckText(absl::string_view text) {
  const auto odd = absl::c_find_if(text, [](unsigned char byte) {
    return byte < 0x20 && !absl::ascii_isspace(byte);
  });
  if (odd == text.end()) return absl::OkStatus();
  const auto line = std::count(text.begin(), odd, '\n') + 1;
  return NoList(absl::StrCat("line ", line, " has bytes of no text"));
}

// OK where `text` has no lines, or one of them is a problem. The others may be
// another version's.
absl::Status CheckHasProblems(absl::string_view text) {
  bool has_lines = false;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (jit::WithoutComment(line).empty()) continue;
    if (jit::ParseProblemList(line).ok()) return absl::OkStatus();
    has_lines = true;
  }
  return has_lines ? NoList("no line of it is a problem") : absl::OkStatus();
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

// Makes the file at `path`, which holds `text`, end with a whole line, so that
// nothing becomes the start of another one: ends the last line, or cuts off
// what a crash left of it. What lies before is kept. Returns what does.
absl::StatusOr<absl::string_view> RepairEnd(const std::string& path,
                                            absl::string_view text, int fd) {
  const absl::string_view written = jit::WithoutZerosAtEnd(text);
  RETURN_IF_ERROR(CheckText(written));
  const size_t last = written.rfind('\n') + 1;  // 0 where there is one line.
  const absl::string_view line = written.substr(last);
  const bool whole = jit::ParseProblemList(line).ok();  // As no line is.
  if (!whole && !IsTorn(line)) {
    return NoList("its last line begins with no type");
  }
  const absl::string_view kept = whole ? written : written.substr(0, last);
  RETURN_IF_ERROR(CheckHasProblems(kept));
  if (kept.size() < text.size()) {
    if (ftruncate(fd, static_cast<off_t>(kept.size())) != 0) {
      return jit::ErrnoStatus(errno, "cut it");
    }
    log::Write(log::Level::kWarning, "problem_log_cut",
               {{"message",
                 "The list of problems ended with what a crash left "
                 "of a line, which was cut off."},
                {"path", path},
                {"bytes", text.size() - kept.size()},
                {"bytes_kept", kept.size()}});
  }
  if (whole && !line.empty()) RETURN_IF_ERROR(jit::WriteAll(fd, "\n"));
  return kept;
}

// What lines are known by.
std::set<std::string> KeysOf(absl::string_view text) {
  std::set<std::string> keys;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (keys.size() >= kMaxLines) break;
    if (jit::WithoutComment(line).empty()) continue;
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
    const absl::Status why = jit::ErrnoStatus(errno, "read and write it");
    return jit::OfOption(kOption, path, why.message());
  }
  if (!S_ISREG(facts.st_mode)) {
    return jit::OfOption(kOption, path, "it is no regular file; allowed: one");
  }
  if (facts.st_size > kMaxFileBytes) {
    return jit::OfOption(
        kOption, path,
        absl::StrCat("it has ", facts.st_size,
                     " bytes, more than a list of problems; allowed: 0 to ",
                     kMaxFileBytes));
  }
  ASSIGN_OR_RETURN(const std::string text,
                   jit::ReadAll(file.get(), kMaxFileBytes));
  const auto kept = RepairEnd(path, text, file.get());
  if (!kept.ok()) return jit::OfOption(kOption, path, kept.status().message());
  // Its last line may have been ended.
  const auto bytes = static_cast<int64_t>(kept->size()) + 1;
  return std::unique_ptr<ProblemLog>(
      new ProblemLog(path, std::move(file), KeysOf(*kept), bytes));
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
  if (known_.contains(key)) return;
  line += "\n";
  const int64_t bytes = bytes_ + static_cast<int64_t>(line.size());
  if (known_.size() >= kMaxLines || bytes > kMaxFileBytes) {
    if (!std::exchange(full_, true)) {
      log::Write(log::Level::kWarning, "problem_log_full",
                 {{"message",
                   "The list of problems has as many lines, or bytes, as it "
                   "may have: what finds no room is not added. A daemon that "
                   "starts with another file goes on there."},
                  {"path", path_},
                  {"lines", known_.size()},
                  {"bytes", bytes_}});
    }
    return;
  }
  known_.insert(key);
  bytes_ = bytes;
  writer_.Schedule([this, line = std::move(line)] {
    struct stat before;
    if (fstat(file_.get(), &before) != 0) return;
    // Another daemon may write to it, too.
    const auto bytes = static_cast<int64_t>(line.size());
    if (before.st_size > kMaxFileBytes - bytes) return;
    const absl::Status written = jit::WriteAll(file_.get(), line);
    if (written.ok()) return;
    // A full disk loses lines, nothing else: not the next one to a part of
    // this one.
    [[maybe_unused]] const int cut = ftruncate(file_.get(), before.st_size);
    log::Write(
        log::Level::kWarning, "problem_log_lost",
        {{"message", absl::StrCat("A line of the list of problems is lost: ",
                                  written.message())},
         {"path", path_}});
  });
}

}  // namespace gemmd::daemon
