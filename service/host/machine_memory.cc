#include "service/host/machine_memory.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "jit/base/status.h"

namespace gemmd::host {
namespace {

// Of `folder` and of those around it, up to `top`.
int64_t LeastLimit(std::filesystem::path folder,
                   const std::filesystem::path& top, const char* name,
                   int64_t least) {
  for (;; folder = folder.parent_path()) {
    std::string text;
    int64_t bytes;
    std::ifstream(folder / name) >> text;
    // "max" is no limit, nor are the 2^63 that version 1 has then.
    if (absl::SimpleAtoi(text, &bytes)) least = std::min(least, bytes);
    if (folder == top || folder == folder.parent_path()) return least;
  }
}

}  // namespace

int64_t LeastGroupLimit(const std::string& root, int64_t otherwise) {
  int64_t least = otherwise;
  const std::filesystem::path groups = root + "/sys/fs/cgroup";
  std::ifstream file(root + "/proc/self/cgroup");
  // A line is NUMBER:CONTROLLERS:PATH, of version 2 without controllers.
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const bool v2 = parts[1].empty();
    if (!v2 && parts[1] != "memory") continue;
    const std::filesystem::path top = v2 ? groups : groups / "memory";
    // In a container the path may be one that only the machine has: its own
    // group is then the top.
    std::error_code error;
    std::filesystem::path folder =
        top / std::string(absl::StripPrefix(parts[2], "/"));
    if (!std::filesystem::exists(folder, error)) folder = top;
    least = LeastLimit(folder.lexically_normal(), top,
                       v2 ? "memory.max" : "memory.limit_in_bytes", least);
  }
  return least;
}

int64_t MachineBytes() {
  struct sysinfo info;
  CHECK(sysinfo(&info) == 0);
  return LeastGroupLimit("", static_cast<int64_t>(info.totalram) *
                                 static_cast<int64_t>(info.mem_unit));
}

}  // namespace gemmd::host
