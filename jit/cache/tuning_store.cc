#include "jit/cache/tuning_store.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/file.h"
#include "jit/base/sha256.h"
#include "jit/base/status.h"
#include "jit/cache/quota.h"

namespace gemmd::jit {
namespace {

constexpr int64_t kMaxRecordBytes = 65536;

std::string KeyOf(const TuningRecord& record) {
  return TuningKey(record.problem_class, record.device, record.template_digest);
}

// Whether what failed to load is no record to this version. Of what could not
// be read at the moment, the parts of k may be those that others have seen.
bool HoldsNoRecord(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status) ||
         absl::IsUnimplemented(status);
}

}  // namespace

absl::StatusOr<TuningRecord> TuningStore::Load(const std::string& key) const {
  ASSIGN_OR_RETURN(const UniqueFd folder,
                   OpenFolder(directory_, kTuningFolder, access()));
  const auto read = [&]() -> absl::StatusOr<TuningRecord> {
    ASSIGN_OR_RETURN(const std::string bytes,
                     ReadFileAt(folder.get(), key, kMaxRecordBytes));
    ASSIGN_OR_RETURN(TuningRecord record, DecodeTuningRecord(bytes));
    if (KeyOf(record) != key) {
      return absl::DataLossError("tuning record lies under another key");
    }
    return record;
  };
  absl::StatusOr<TuningRecord> record = read();
  // It can be measured again: not worth keeping aside. What another version
  // wrote is not damaged.
  if (absl::IsDataLoss(record.status()) && !read_only_) {
    unlinkat(folder.get(), key.c_str(), 0);
  }
  return record;
}

absl::StatusOr<TuningRecord> TuningStore::Find(
    const Problem& problem, absl::string_view device,
    absl::string_view template_digest) const {
  return Load(TuningKey(ProblemClass(problem), device, template_digest));
}

absl::StatusOr<TuningRecord> TuningStore::Put(TuningRecord record) const {
  if (read_only_) {
    return absl::PermissionDeniedError("this directory is only read");
  }
  const std::string key = KeyOf(record);
  const std::string bytes = EncodeTuningRecord(record);
  absl::Status trouble;
  const auto wanted = [&] {
    absl::StatusOr<TuningRecord> there = Load(key);
    if (there.ok()) {
      if (MayReplace(record, *there)) return true;
      record = *std::move(there);
      return false;
    }
    if (HoldsNoRecord(there.status())) return true;
    trouble = there.status();
    return false;
  };
  RETURN_IF_ERROR(WriteWithinQuota({.directory = directory_}, kTuningFolder,
                                   key, bytes, nullptr, wanted));
  RETURN_IF_ERROR(trouble);
  return record;
}

TuningRecords TuningStore::All() const {
  TuningRecords all;
  const absl::StatusOr<UniqueFd> folder =
      OpenFolder(directory_, kTuningFolder, access());
  auto keys = folder.ok() ? ReadNames(*folder) : folder.status();
  if (!keys.ok()) {
    if (!absl::IsNotFound(keys.status())) {
      all.faults.emplace_back(keys.status().message());
    }
    return all;
  }
  std::sort(keys->begin(), keys->end());
  for (const std::string& key : *keys) {
    if (!IsSha256Hex(key)) continue;
    absl::StatusOr<TuningRecord> record = Load(key);
    if (record.ok()) {
      all.readable.push_back(*std::move(record));
    } else if (!absl::IsNotFound(record.status())) {  // Not gone meanwhile.
      all.faults.push_back(absl::StrCat(key, ": ", record.status().message()));
    }
  }
  return all;
}

int TuningStore::RemoveOthers(absl::string_view template_digest) const {
  int removed = 0;
  const absl::StatusOr<UniqueFd> folder =
      OpenFolder(directory_, kTuningFolder, FolderAccess::kOwn);
  if (!folder.ok()) return 0;
  for (const TuningRecord& record : All().readable) {
    if (record.template_digest == template_digest) continue;
    if (unlinkat(folder->get(), KeyOf(record).c_str(), 0) == 0) ++removed;
  }
  return removed;
}

}  // namespace gemmd::jit
