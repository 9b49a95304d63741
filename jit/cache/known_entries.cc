#include "jit/cache/known_entries.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "absl/status/status.h"
#include "jit/base/steady_time.h"

namespace gemmd::jit {
namespace {

// Of the time, at most about a tenth goes into listings,
constexpr int kPauses = 10;
// but where that would leave new entries unseen for longer.
constexpr absl::Duration kLongestPause = absl::Seconds(2);

// Whether an entry is damaged or of another format. What else is wrong is the
// system's, and may be gone next time.
bool IsUnusable(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsUnimplemented(status);
}

}  // namespace

EntryTexts::Entry EntryTexts::Intern(const EntrySummary& summary) {
  return {summary.source_digest, &*options_.insert(summary.options).first,
          &*compilers_.insert(summary.compiler).first};
}

absl::Duration KnownEntries::PauseAfter(absl::Duration took) {
  return std::max(took, std::min(kPauses * took, kLongestPause));
}

bool KnownEntries::Refresh() {
  const absl::Time start = SteadyNow();
  if (start < list_again_) return false;
  const absl::Time at = store_->ChangedAt();
  if (at == changed_at_ && at != absl::InfiniteFuture()) return false;
  changed_at_ = at;
  const bool changed = List();
  const absl::Time end = SteadyNow();
  list_again_ = end + PauseAfter(end - start);
  return changed;
}

bool KnownEntries::List() {
  ++work_.listings;
  absl::StatusOr<std::vector<std::string>> keys = store_->ReadKeys();
  if (absl::IsNotFound(keys.status())) keys.emplace();  // No directory.
  if (!keys.ok()) {
    changed_at_ = absl::InfiniteFuture();
    return false;
  }
  std::map<std::string, EntryTexts::Entry> entries;
  std::vector<std::string> unknown;
  for (std::string& key : *keys) {
    if (auto found = entries_.extract(key); !found.empty()) {
      entries.insert(std::move(found));
    } else {
      unknown.push_back(std::move(key));
    }
  }
  bool changed = !entries_.empty();  // What is left has gone.
  entries_ = std::move(entries);

  // Before they are read: what comes in between is then another file.
  const std::vector<std::optional<FileStamp>> stamps = store_->Stamps(unknown);
  std::map<std::string, FileStamp> unusable;
  std::vector<std::string> unread;
  std::vector<std::optional<FileStamp>> stamps_of_unread;
  for (size_t i = 0; i < unknown.size(); ++i) {
    const auto found = unusable_.find(unknown[i]);
    if (found != unusable_.end() && stamps[i] == found->second) {
      unusable.insert(*found);
    } else {
      unread.push_back(std::move(unknown[i]));
      stamps_of_unread.push_back(stamps[i]);
    }
  }
  store_->Summaries(
      unread, [&](size_t i, const absl::StatusOr<EntrySummary>& summary) {
        ++work_.reads;
        if (summary.ok()) {
          entries_[summary->key] = texts_.Intern(*summary);
          changed = true;
        } else if (IsUnusable(summary.status())) {
          if (stamps_of_unread[i]) unusable[unread[i]] = *stamps_of_unread[i];
        } else if (!absl::IsNotFound(summary.status())) {
          changed_at_ = absl::InfiniteFuture();
        }
      });
  unusable_ = std::move(unusable);
  return changed;
}

}  // namespace gemmd::jit
