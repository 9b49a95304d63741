#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "jit/base/file.h"
#include "service/monitor/collect.h"

namespace gemmd::monitor {
namespace {

using metrics::Metric;

constexpr int64_t kMaxFileBytes = 64 << 10;

// Words of a file of /proc: none when there is no such file. Of stat, those
// behind the program's name, which may hold anything.
std::vector<std::string> Words(const std::string& path) {
  const auto text = jit::ReadFile(path, kMaxFileBytes);
  if (!text.ok()) return {};
  const size_t name = text->rfind(") ");
  return absl::StrSplit(
      absl::string_view(*text).substr(name == text->npos ? 0 : name + 2),
      absl::ByAnyChar(" \n"), absl::SkipEmpty());
}

// The number at `index`, from 0.
double Number(const std::vector<std::string>& words, size_t index) {
  double number = 0;
  if (index < words.size()) (void)absl::SimpleAtod(words[index], &number);
  return number;
}

// When this machine started, in seconds since 1970.
double BootTime() {
  const std::vector<std::string> words = Words("/proc/stat");
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "btime") return Number(words, i + 1);
  }
  return 0;
}

}  // namespace

void CollectProcess(metrics::Exposition& out) {
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  // proc(5) numbers the fields from 1; the first of these is the third.
  const std::vector<std::string> stat = Words("/proc/self/stat");
  const auto field = [&](size_t number) { return Number(stat, number - 3); };
  out.Add(Metric::kCpuTime, (field(14) + field(15)) / ticks);
  out.Add(Metric::kResidentMemory,
          field(24) * static_cast<double>(sysconf(_SC_PAGESIZE)));
  if (const double boot = BootTime(); boot > 0) {
    out.Add(Metric::kStartTime, boot + field(22) / ticks);
  }
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (!error) {
    out.Add(Metric::kOpenFiles,
            static_cast<double>(std::distance(begin(files), end(files))));
  }
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    out.Add(Metric::kOpenFilesLimit, static_cast<double>(limit.rlim_cur));
  }
}

}  // namespace gemmd::monitor
