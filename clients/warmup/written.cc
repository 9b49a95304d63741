#include "clients/warmup/written.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "clients/cli/quantity.h"
#include "clients/warmup/bundle_file.h"
#include "jit/base/folder.h"
#include "jit/base/status.h"
#include "jit/cache/entry.h"
#include "jit/cache/quota.h"

namespace gemmd::warmup {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// For people to give, and with room for a file to be replaced.
int64_t RoundUp(int64_t bytes) { return (bytes / kMiB + 2) * kMiB; }

// Files of one kind.
struct Count {
  int all = 0;
  int lost = 0;
  int64_t lost_bytes = 0;
};

}  // namespace

Written::Written(std::string directory) : directory_(std::move(directory)) {}

// A bundle's member is called as its file is.
void Written::Add(const jit::CompiledKernel& kernel) {
  Add(MemberName(kernel), jit::EncodeEntry(kernel).size());
}

void Written::Add(const jit::TuningRecord& record) {
  Add(MemberName(record), jit::EncodeTuningRecord(record).size());
}

void Written::Add(const std::string& name, size_t bytes) {
  std::lock_guard lock(mutex_);
  files_[name] = jit::BytesOnDisk(static_cast<int64_t>(bytes));
}

absl::Status Written::CheckKept() const {
  Count kernels, records;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [name, bytes] : files_) {
      Count& count =
          absl::StartsWith(name, jit::kTuningFolder) ? records : kernels;
      ++count.all;
      std::error_code error;
      if (std::filesystem::exists(absl::StrCat(directory_, "/", name), error)) {
        continue;
      }
      ++count.lost;
      count.lost_bytes += bytes;
    }
  }
  if (kernels.lost == 0 && records.lost == 0) return absl::OkStatus();
  std::vector<std::string> lost;
  if (kernels.lost > 0) {
    lost.push_back(absl::StrCat(kernels.lost, " of ", kernels.all, " kernels"));
  }
  if (records.lost > 0) {
    lost.push_back(
        absl::StrCat(records.lost, " of ", records.all, " tuning records"));
  }
  std::string text = absl::StrCat(absl::StrJoin(lost, " and "), " are not in ",
                                  directory_, " any more");
  ASSIGN_OR_RETURN(const int64_t limit,
                   jit::LimitBytes({.directory = directory_}));
  const int64_t least = RoundUp(
      jit::LeastLimitBytes(directory_, kernels.lost_bytes, records.lost_bytes));
  // Else others removed them.
  if (limit > 0 && limit < least) {
    absl::StrAppend(
        &text, ": its limit is ", cli::FormatBytes(limit),
        " and would have to be ", cli::FormatBytes(least),
        " (--limit-bytes here, and --cache-limit-bytes of its daemon)");
  }
  return absl::ResourceExhaustedError(text);
}

}  // namespace gemmd::warmup
