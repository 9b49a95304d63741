#include "jit/cache/tuning_table.h"

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"

namespace gemmd::jit {

TuningTable::TuningTable(Options options, std::string template_digest)
    : options_(std::move(options)),
      template_digest_(std::move(template_digest)) {
  for (const std::string& layer : options_.layers) {
    Read(TuningStore(layer, /*read_only=*/true));
  }
  if (!options_.directory.empty()) Read(TuningStore(options_.directory));
}

void TuningTable::Read(const TuningStore& store) {
  std::vector<TuningRecord> all = store.All();
  std::lock_guard lock(mutex_);
  for (TuningRecord& record : all) {
    if (record.template_digest != template_digest_) continue;
    if (records_.size() >= options_.max_records) return;
    Key key(record.device, record.problem_class);
    records_[std::move(key)] = std::move(record);
  }
}

std::optional<TuningRecord> TuningTable::Find(const Problem& problem,
                                              const std::string& device) const {
  const Key key(device, ProblemClass(problem));
  std::lock_guard lock(mutex_);
  const auto found = records_.find(key);
  if (found == records_.end()) return std::nullopt;
  return found->second;
}

absl::Status TuningTable::Put(TuningRecord record) {
  record.template_digest = template_digest_;
  Key key(record.device, record.problem_class);
  std::lock_guard write_lock(write_mutex_);
  {
    std::lock_guard lock(mutex_);
    if (records_.size() >= options_.max_records && !records_.contains(key)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("there are ", records_.size(),
                       " tuning records; allowed: ", options_.max_records));
    }
  }
  if (!options_.directory.empty()) {
    RETURN_IF_ERROR(TuningStore(options_.directory).Put(record));
  }
  std::lock_guard lock(mutex_);
  records_[std::move(key)] = std::move(record);
  return absl::OkStatus();
}

size_t TuningTable::size() const {
  std::lock_guard lock(mutex_);
  return records_.size();
}

}  // namespace gemmd::jit
