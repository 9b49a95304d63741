#include "jit/cache/memory_store.h"

#include <utility>

namespace gemmd::jit {
namespace {

int64_t BytesOf(const CompiledKernel& kernel) {
  return static_cast<int64_t>(sizeof(kernel) + kernel.source.size() +
                              kernel.log.size() + kernel.cubin.size());
}

}  // namespace

KernelPointer MemoryStore::Find(const std::string& key) {
  std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  order_.splice(order_.begin(), order_, found->second);
  return order_.front();
}

void MemoryStore::Insert(KernelPointer kernel) {
  std::lock_guard lock(mutex_);
  if (by_key_.contains(kernel->key) || BytesOf(*kernel) > limit_bytes_) return;
  bytes_ += BytesOf(*kernel);
  order_.push_front(std::move(kernel));
  by_key_[order_.front()->key] = order_.begin();
  while (bytes_ > limit_bytes_) {
    bytes_ -= BytesOf(*order_.back());
    by_key_.erase(order_.back()->key);
    order_.pop_back();
  }
}

bool MemoryStore::Remove(const std::string& key) {
  std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return false;
  bytes_ -= BytesOf(**found->second);
  order_.erase(found->second);
  by_key_.erase(found);
  return true;
}

std::vector<KernelPointer> MemoryStore::List() const {
  std::lock_guard lock(mutex_);
  return {order_.begin(), order_.end()};
}

}  // namespace gemmd::jit
