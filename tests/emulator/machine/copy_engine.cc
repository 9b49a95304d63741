#include "tests/emulator/machine/copy_engine.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "service/host/numbers.h"

namespace gemmd::emulator {
namespace {

constexpr int kChunk = 16;
// Readers of shared memory below this number are warpgroups.
constexpr int kFirstStoreReader = 4;

std::string Who(const Actor& actor) {
  return "thread " + std::to_string(actor.thread);
}

void RoundToTf32(unsigned char* chunk) {
  for (int i = 0; i < kChunk; i += 4) {
    float value;
    std::memcpy(&value, chunk + i, sizeof value);
    value = host::RoundToTf32(value);
    std::memcpy(chunk + i, &value, sizeof value);
  }
}

}  // namespace

template <typename Visit>
void CopyEngine::ForChunks(const TensorMap& map, const BoxPlace& place,
                           uint32_t address, const Visit& visit) {
  for (int line = 0; line < map.box_lines; ++line) {
    const int64_t y = int64_t{place.y} + line;
    const bool inside =
        y >= 0 && y < map.lines && place.z >= 0 && place.z < map.matrices;
    char* const start =
        inside ? map.memory + place.z * map.matrix_bytes + y * map.pitch_bytes
               : nullptr;
    for (int byte = 0; byte < map.box_line_bytes(); byte += kChunk) {
      const auto at =
          address + static_cast<uint32_t>(line * map.box_line_bytes() + byte);
      visit(Swizzled(at, map.swizzle_bytes), start,
            place.x + byte / map.element_bytes, place.y + line);
    }
  }
}

bool CopyEngine::Check(const Actor& actor, const char* what, const void* bytes,
                       const BoxPlace& place, uint32_t address,
                       TensorMap* map) {
  const auto read = ReadTensorMap(bytes);
  if (!read || reinterpret_cast<uintptr_t>(bytes) % 64 != 0) {
    reports_.Add("no tensor map",
                 Who(actor) + ": " + what + " by a map that none encoded");
    return false;
  }
  *map = *read;
  const auto* at = static_cast<const char*>(bytes);
  if (std::less_equal<>()(in_memory_.data(), at) &&
      std::less<>()(at, in_memory_.data() + in_memory_.size()) &&
      !acquired_.contains({actor.thread, bytes})) {
    reports_.Add("tensor map not acquired",
                 Who(actor) + ": " + what + " by a map in device memory");
    return false;
  }
  if (address % 128 != 0) {
    reports_.Add("misaligned", Who(actor) + ": " + what + " at shared memory " +
                                   std::to_string(address) +
                                   ", no multiple of 128");
    return false;
  }
  // Seen on an H100: an illegal instruction.
  if (int64_t{place.x} * map->element_bytes % kChunk != 0) {
    reports_.Add("misaligned", Who(actor) + ": " + what + " of a box that " +
                                   "begins at element " +
                                   std::to_string(place.x) +
                                   ", between multiples of 16 bytes");
    return false;
  }
  return memory_.Contains(address, static_cast<uint64_t>(map->box_bytes()),
                          what);
}

void CopyEngine::Acquire(const Actor& actor, const void* map) {
  acquired_.emplace(actor.thread, map);
}

void CopyEngine::Load(const Actor& actor, uint32_t to, const void* bytes,
                      const BoxPlace& place, uint32_t barrier) {
  TensorMap map;
  Barriers::Target target;
  if (!Check(actor, "a load", bytes, place, to, &map) ||
      !barriers_.Find(actor, barrier, &target)) {
    return;
  }
  ForChunks(map, place, to, [&](uint32_t at, char*, int x, int y) {
    memory_.IssueLoad(actor, at, {map.memory, x, y, place.z}, target.number,
                      target.phase);
  });
  scheduler_.Later([this, map, place, to, barrier] {
    ForChunks(map, place, to, [&](uint32_t at, char* line, int x, int) {
      unsigned char chunk[kChunk] = {};
      const int64_t first = int64_t{x} * map.element_bytes;
      const int64_t end = map.width * map.element_bytes;
      for (int64_t i = 0; i < kChunk && line != nullptr; ++i) {
        if (first + i >= 0 && first + i < end) {
          chunk[i] = static_cast<unsigned char>(line[first + i]);
        }
      }
      if (map.rounds_tf32) RoundToTf32(chunk);
      std::memcpy(memory_.At(at), chunk, kChunk);
    });
    barriers_.Land(barrier, static_cast<uint32_t>(map.box_bytes()));
  });
}

CopyEngine::Stores& CopyEngine::StoresOf(const Actor& actor) {
  const auto [found, made] = stores_.try_emplace(actor.thread);
  if (made) {
    found->second.reader =
        kFirstStoreReader + std::min(static_cast<int>(stores_.size()) - 1,
                                     kMaxReaders - kFirstStoreReader - 1);
  }
  return found->second;
}

void CopyEngine::Store(const Actor& actor, const void* bytes,
                       const BoxPlace& place, uint32_t from) {
  TensorMap map;
  if (!Check(actor, "a store", bytes, place, from, &map)) return;
  Stores& stores = StoresOf(actor);
  ForChunks(map, place, from, [&](uint32_t at, char*, int, int) {
    memory_.IssueRead(
        actor, at,
        {"a store of the copy engine", stores.reader, stores.groups + 1});
  });
  ++stores.uncommitted;
  ++stores.unread;
  scheduler_.Later([this, map, place, from, &stores] {
    std::vector<unsigned char> box;
    ForChunks(map, place, from, [&](uint32_t at, char*, int, int) {
      const unsigned char* chunk = memory_.At(at);
      box.insert(box.end(), chunk, chunk + kChunk);
    });
    if (--stores.unread == 0) scheduler_.Wake(stores.waiters);
    // What was read is written later still.
    scheduler_.Later([map, place, from, box = std::move(box)] {
      const unsigned char* chunk = box.data();
      ForChunks(map, place, from, [&](uint32_t, char* line, int x, int) {
        const int64_t first = int64_t{x} * map.element_bytes;
        const int64_t end = map.width * map.element_bytes;
        for (int64_t i = 0; i < kChunk && line != nullptr; ++i) {
          if (first + i >= 0 && first + i < end) {
            line[first + i] = static_cast<char>(chunk[i]);
          }
        }
        chunk += kChunk;
      });
    });
  });
}

void CopyEngine::CommitStores(const Actor& actor) {
  Stores& stores = StoresOf(actor);
  ++stores.groups;
  stores.uncommitted = 0;
}

void CopyEngine::WaitStoresRead(Actor& actor) {
  Stores& stores = StoresOf(actor);
  while (stores.unread > stores.uncommitted) {
    scheduler_.Wait(stores.waiters, [&] {
      return std::string("for its stores to have read shared memory");
    });
  }
  uint32_t& seen =
      actor.knowledge.seen[static_cast<size_t>(kFirstReader + stores.reader)];
  seen = std::max(seen, stores.groups);
}

void CopyEngine::CheckEnd(const Actor& actor) {
  const auto found = stores_.find(actor.thread);
  if (found == stores_.end()) return;
  const Stores& stores = found->second;
  if (stores.uncommitted > 0) {
    reports_.Add("stores never committed",
                 Who(actor) + " issued " + std::to_string(stores.uncommitted));
  }
  const auto reader = static_cast<size_t>(kFirstReader + stores.reader);
  if (actor.knowledge.seen[reader] < stores.groups) {
    reports_.Add("shared memory given back while in flight",
                 Who(actor) +
                     " ends without waiting until its stores have"
                     " read shared memory");
  }
}

}  // namespace gemmd::emulator
