#include "tests/service/gpu/fake_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace gemmd::gpu {
namespace {

constexpr size_t kAlignment = 256;

uintptr_t Address(const void* at) { return reinterpret_cast<uintptr_t>(at); }

}  // namespace

char* FakeMemory::New(Kind kind, size_t bytes) {
  auto storage = std::make_unique<char[]>(bytes + kAlignment);
  std::memset(storage.get(), 0x5a, bytes + kAlignment);
  const uintptr_t start =
      (Address(storage.get()) + kAlignment - 1) / kAlignment * kAlignment;
  blocks_[start] = {
      .kind = kind, .bytes = bytes, .storage = std::move(storage)};
  return reinterpret_cast<char*>(start);
}

void FakeMemory::Begin(const void* at) { blocks_.at(Address(at)).begun = true; }

void FakeMemory::Adopt(void* at, size_t bytes) {
  blocks_[Address(at)] = {
      .kind = Kind::kPinned, .bytes = bytes, .storage = nullptr, .begun = true};
}

void FakeMemory::End(const std::string& user, const void* at) {
  const auto found = blocks_.find(Address(at));
  if (found == blocks_.end() || found->second.ended) {
    ADD_FAILURE() << user << " frees what is not there";
    return;
  }
  Block& block = found->second;
  EXPECT_TRUE(block.begun) << user << " frees memory before its allocation";
  if (block.storage == nullptr) {  // Not ours.
    blocks_.erase(found);
    return;
  }
  block.ended = true;
  std::memset(reinterpret_cast<char*>(found->first), 0xdd, block.bytes);
}

void FakeMemory::Release(const std::string& user, const void* at) {
  const auto found = blocks_.find(Address(at));
  if (found == blocks_.end() || found->second.released) {
    ADD_FAILURE() << user << " gives back what is not there";
    return;
  }
  found->second.released = true;
}

bool FakeMemory::ExpectUsable(const std::string& user, Kind kind,
                              const void* at, size_t bytes) {
  uintptr_t start = 0;
  const Block* block = Find(Address(at), &start);
  if (block == nullptr || block->kind != kind) {
    ADD_FAILURE() << user << " uses memory that is not "
                  << (kind == Kind::kDevice ? "of the device" : "page-locked");
    return false;
  }
  if (!block->begun || block->ended) {
    ADD_FAILURE() << user << " uses memory "
                  << (block->ended ? "after it was freed"
                                   : "before it was allocated");
    return false;
  }
  const size_t last = Address(at) - start + bytes;
  if (last > block->bytes) {
    ADD_FAILURE() << user << " uses " << last << " bytes of a block of "
                  << block->bytes;
    return false;
  }
  return true;
}

void FakeMemory::ExpectNotDangling(const std::string& user, const void* at) {
  uintptr_t start = 0;
  const Block* block = Find(Address(at), &start);
  if (block != nullptr) ExpectUsable(user, block->kind, at, 1);
}

size_t FakeMemory::BytesAt(const void* at) const {
  const auto found = blocks_.find(Address(at));
  return found == blocks_.end() ? 0 : found->second.bytes;
}

size_t FakeMemory::live() const {
  return static_cast<size_t>(
      std::count_if(blocks_.begin(), blocks_.end(),
                    [](const auto& entry) { return !entry.second.released; }));
}

FakeMemory::Block* FakeMemory::Find(uintptr_t at, uintptr_t* start) {
  auto found = blocks_.upper_bound(at);
  if (found == blocks_.begin()) return nullptr;
  --found;
  *start = found->first;
  return at - found->first < found->second.bytes ? &found->second : nullptr;
}

}  // namespace gemmd::gpu
