#include "jit/cache/tuning_table.h"

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "jit/cache/tuning_store.h"

namespace gemmd::jit {

TuningTable::TuningTable(Options options, std::string template_digest)
    : options_(std::move(options)),
      template_digest_(std::move(template_digest)) {
  for (const std::string& layer : options_.layers) {
    Read(layer, /*read_only=*/true);
  }
  if (!options_.directory.empty()) {
    Read(options_.directory, /*read_only=*/false);
  }
}

void TuningTable::Read(const std::string& directory, bool read_only) {
  TuningRecords all = TuningStore(directory, read_only).All();
  if (!all.faults.empty() && options_.warn) {
    options_.warn(
        absl::StrCat("cache directory ", directory,
                     ": tuning records that cannot be read, "
                     "whose products may have other last bits without them: ",
                     all.faults.size(), "; the first: ", all.faults[0]));
  }
  std::lock_guard lock(mutex_);
  for (TuningRecord& record : all.readable) {
    if (record.template_digest != template_digest_) continue;
    const auto known = records_.find(Key(record.device, record.problem_class));
    // Nobody was served with that one yet: its parts of k need not stay.
    if (known != records_.end() &&
        record.generation == known->second.generation) {
      known->second = std::move(record);
    } else {
      Keep(std::move(record));
    }
  }
}

const TuningRecord* TuningTable::Keep(TuningRecord record) {
  Key key(record.device, record.problem_class);
  const auto found = records_.find(key);
  if (found == records_.end()) {
    if (records_.size() >= options_.max_records) return nullptr;
    return &records_.emplace(std::move(key), std::move(record)).first->second;
  }
  if (MayReplace(record, found->second)) found->second = std::move(record);
  return &found->second;
}

std::optional<TuningRecord> TuningTable::Find(const Problem& problem,
                                              const std::string& device) const {
  const Key key(device, ProblemClass(problem));
  std::lock_guard lock(mutex_);
  const auto found = records_.find(key);
  if (found == records_.end()) return std::nullopt;
  return found->second;
}

bool TuningTable::Refresh(const Problem& problem, const std::string& device) {
  if (options_.directory.empty()) return false;
  std::lock_guard write_lock(write_mutex_);
  const auto there =
      TuningStore(options_.directory).Find(problem, device, template_digest_);
  if (!there.ok() || Find(problem, device) == *there) return false;
  std::lock_guard lock(mutex_);
  const TuningRecord* const kept = Keep(*there);
  return kept != nullptr && *kept == *there;
}

absl::StatusOr<TuningRecord> TuningTable::Put(TuningRecord record) {
  record.template_digest = template_digest_;
  const Key key(record.device, record.problem_class);
  std::lock_guard write_lock(write_mutex_);
  {
    std::lock_guard lock(mutex_);
    const auto found = records_.find(key);
    const bool known = found != records_.end();
    if (known && !MayReplace(record, found->second)) return found->second;
    if (!known && records_.size() >= options_.max_records) {
      return absl::ResourceExhaustedError(
          absl::StrCat("there are ", records_.size(),
                       " tuning records; allowed: ", options_.max_records));
    }
  }
  if (!options_.directory.empty()) {
    ASSIGN_OR_RETURN(record,
                     TuningStore(options_.directory).Put(std::move(record)));
  }
  std::lock_guard lock(mutex_);
  return *Keep(std::move(record));  // Only who holds write_mutex_ takes room.
}

size_t TuningTable::size() const {
  std::lock_guard lock(mutex_);
  return records_.size();
}

}  // namespace gemmd::jit
