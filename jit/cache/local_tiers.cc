#include "jit/cache/local_tiers.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gemmd::jit {
namespace {

std::vector<std::shared_ptr<DiskStore>> OpenStores(
    const LocalTiers::Options& options) {
  std::vector<std::shared_ptr<DiskStore>> stores;
  for (const std::string& layer : options.layers) {
    stores.push_back(std::make_shared<DiskStore>(
        DiskStore::Options{.directory = layer, .read_only = true}));
  }
  if (!options.directory.empty()) {
    stores.push_back(std::make_shared<DiskStore>(DiskStore::Options{
        .directory = options.directory, .limit_bytes = options.limit_bytes}));
  }
  return stores;
}

}  // namespace

LocalTiers::LocalTiers(Options options)
    : options_(std::move(options)),
      stores_(OpenStores(options_)),
      writable_(options_.directory.empty() ? nullptr : stores_.back()) {
  for (size_t i = 0; i < stores_.size(); ++i) {
    tiers_.push_back(std::make_unique<MeasuredTier>(
        stores_[i] == writable_ ? "disk" : absl::StrCat("layer ", i),
        stores_[i]));
  }
  if (writable_ == nullptr) return;
  writer_ = std::make_unique<WriteBehind>(WriteBehind::Options{
      .write =
          [this](const CompiledKernel& kernel) {
            return tiers_.back()->Store(kernel);
          },
      .tidy =
          [this, first = true]() mutable {
            // Others learn the limit, and the directory keeps to it from now.
            if (std::exchange(first, false) && options_.limit_bytes) {
              const absl::StatusOr<Collection> done = writable_->Collect();
              if (done.ok() && done->entries_removed > 0) {
                options_.collected(*done);
              }
            }
            writable_->MarkUsed(uses_.Take());
          },
      .failed = options_.write_failed});
}

KernelPointer LocalTiers::Load(const std::string& key, Look look) {
  if (writer_ != nullptr) {
    if (KernelPointer kernel = writer_->Find(key)) return kernel;
  }
  for (const std::unique_ptr<MeasuredTier>& tier : tiers_) {
    absl::StatusOr<CompiledKernel> kernel = tier->Load(key, look);
    if (!kernel.ok()) {
      options_.load_failed(tier->name(), key, kernel.status());
    } else if (!refused_.Contains(*kernel)) {
      return std::make_shared<const CompiledKernel>(*std::move(kernel));
    }
  }
  return nullptr;
}

KernelPointer LocalTiers::Peek(const std::string& key) const {
  if (writer_ != nullptr) {
    if (KernelPointer kernel = writer_->Find(key)) return kernel;
  }
  for (const std::shared_ptr<DiskStore>& store : stores_) {
    absl::StatusOr<CompiledKernel> kernel = store->Peek(key);
    if (kernel.ok()) {
      return std::make_shared<const CompiledKernel>(*std::move(kernel));
    }
  }
  return nullptr;
}

bool LocalTiers::InLayer(const std::string& key) const {
  return std::any_of(stores_.begin(), stores_.end(), [&](const auto& store) {
    return store != writable_ && store->Peek(key).ok();
  });
}

void LocalTiers::Store(KernelPointer kernel,
                       std::shared_ptr<const void> release) {
  if (writer_ != nullptr) writer_->Write(std::move(kernel), std::move(release));
}

absl::Status LocalTiers::Remove(const std::string& key) {
  if (writable_ == nullptr) return absl::NotFoundError("nothing is writable");
  const bool waited = writer_->Remove(key);
  const absl::Status status = writable_->Remove(key);
  return waited && absl::IsNotFound(status) ? absl::OkStatus() : status;
}

void LocalTiers::Quarantine(const CompiledKernel& kernel) {
  refused_.Add(kernel);
  if (writable_ == nullptr) return;
  writer_->Remove(kernel.key);
  writable_->Quarantine(kernel.key).IgnoreError();
}

std::vector<EntrySummary> LocalTiers::List(
    const std::vector<KernelPointer>& resident, const std::string& after,
    size_t limit) const {
  std::map<std::string, KernelPointer> known;
  std::vector<KernelPointer> all = resident;
  if (writer_ != nullptr) {
    for (KernelPointer& kernel : writer_->List()) {
      all.push_back(std::move(kernel));
    }
  }
  std::vector<std::string> keys;
  for (KernelPointer& kernel : all) {
    keys.push_back(kernel->key);
    known[kernel->key] = std::move(kernel);
  }
  for (const std::shared_ptr<DiskStore>& store : stores_) {
    for (std::string& key : store->Keys()) keys.push_back(std::move(key));
  }
  std::erase_if(keys, [&](const std::string& key) { return key <= after; });
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());

  std::vector<EntrySummary> list;
  auto next = keys.begin();
  while (list.size() < limit && next != keys.end()) {
    // Some may be found to be damaged: then there is another turn.
    const auto first = next;
    next += std::min<ptrdiff_t>(static_cast<ptrdiff_t>(limit - list.size()),
                                keys.end() - first);
    std::map<std::string, EntrySummary> page;
    std::vector<std::string> missing(first, next);
    for (const auto& [key, kernel] : known) {
      if (key >= *first && key <= *(next - 1)) page[key] = Summarize(*kernel);
    }
    for (const std::shared_ptr<DiskStore>& store : stores_) {
      std::erase_if(missing, [&page](const std::string& key) {
        return page.contains(key);
      });
      store->Summaries(
          missing, [&page](size_t, absl::StatusOr<EntrySummary> summary) {
            if (summary.ok()) page[summary->key] = *std::move(summary);
          });
    }
    for (auto& [key, summary] : page) list.push_back(std::move(summary));
  }
  return list;
}

std::vector<TierStatistics> LocalTiers::statistics() const {
  std::vector<TierStatistics> statistics;
  for (const std::unique_ptr<MeasuredTier>& tier : tiers_) {
    statistics.push_back(tier->statistics());
  }
  return statistics;
}

void LocalTiers::Flush() {
  if (writer_ != nullptr) writer_->Flush();
}

}  // namespace gemmd::jit
