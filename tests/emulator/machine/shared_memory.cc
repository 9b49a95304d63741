#include "tests/emulator/machine/shared_memory.h"

#include <cstring>
#include <string>

namespace gemmd::emulator {
namespace {

constexpr Agent kBarrierBytes = kAgents;  // Writer of what is a barrier.

std::string Hex(uint32_t address) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%x", address);
  return text;
}

std::string NameOf(Agent agent) {
  if (agent == kBarrierBytes) return "a barrier";
  if (agent >= kFirstReader) return "an asynchronous reader";
  if (agent >= kFirstBarrier) return "the copy engine";
  return "thread " + std::to_string(agent);
}

std::string NameOfReader(size_t reader) {
  return reader < 4 ? "wgmma of warpgroup " + std::to_string(reader)
                    : "a store of the copy engine";
}

}  // namespace

SharedMemory::SharedMemory(uint32_t bytes, Reports& reports)
    : reports_(reports),
      bytes_((bytes + kChunk - 1) / kChunk * kChunk, 0xcd),
      cells_(bytes_.size()),
      origins_(bytes_.size() / kChunk),
      readers_(bytes_.size() / kChunk) {}

void SharedMemory::Add(const char* kind, const Actor& actor, uint32_t address,
                       const std::string& text) {
  reports_.Add(kind, "thread " + std::to_string(actor.thread) +
                         ", shared memory at " + Hex(address) + ": " + text);
}

bool SharedMemory::Contains(uint32_t address, uint64_t bytes,
                            const char* what) {
  if (address >= kBase && address - kBase + bytes <= bytes_.size()) return true;
  reports_.Add("outside of shared memory",
               std::string(what) + " of " + std::to_string(bytes) +
                   " bytes at " + Hex(address) + "; shared memory is [" +
                   Hex(kBase) + ", " +
                   Hex(kBase + static_cast<uint32_t>(bytes_.size())) + ")");
  return false;
}

// Whoever writes must know that all that the asynchronous proxy was to read of
// the chunk has been read.
void SharedMemory::CheckReaders(const Actor& actor, uint32_t address,
                                const char* what) {
  const Readers& readers = readers_[(address - kBase) / kChunk];
  for (size_t i = 0; i < readers.size(); ++i) {
    if (readers[i] <= actor.knowledge.seen[kFirstReader + i]) continue;
    Add("overwritten while in flight", actor, address,
        std::string(what) + " where " + NameOfReader(i) + ", group " +
            std::to_string(readers[i]) +
            ", may still read: its completion is not known here");
  }
}

void SharedMemory::Write(const Actor& actor, uint32_t address, const void* from,
                         uint32_t bytes) {
  if (!Contains(address, bytes, "a store")) return;
  if (address % bytes != 0) {
    Add("misaligned", actor, address,
        "a store of " + std::to_string(bytes) + " bytes");
  }
  CheckReaders(actor, address, "a store");
  std::memcpy(At(address), from, bytes);
  origins_[(address - kBase) / kChunk].map = nullptr;
  Cell* cell = CellAt(address);
  for (uint32_t i = 0; i < bytes; ++i) {
    if (cell[i].writer == kBarrierBytes) {
      Add("barrier overwritten", actor, address, "a store");
    } else if (cell[i].deed > actor.knowledge.seen[cell[i].writer]) {
      Add("unordered writes", actor, address,
          "a store where " + NameOf(cell[i].writer) +
              " wrote, with no barrier between");
    }
    cell[i] = {static_cast<Agent>(actor.thread), actor.epoch()};
  }
}

void SharedMemory::Read(const Actor& actor, uint32_t address, void* to,
                        uint32_t bytes) {
  std::memset(to, 0xcd, bytes);
  if (!Contains(address, bytes, "a load")) return;
  if (address % bytes != 0) {
    Add("misaligned", actor, address,
        "a load of " + std::to_string(bytes) + " bytes");
  }
  std::memcpy(to, At(address), bytes);
  const Cell* cell = CellAt(address);
  for (uint32_t i = 0; i < bytes; ++i) {
    if (cell[i].deed == 0) {
      Add("uninitialised read", actor, address, "a load of what none wrote");
    } else if (cell[i].writer == kBarrierBytes) {
      Add("barrier read", actor, address, "a load");
    } else if (cell[i].deed > actor.knowledge.seen[cell[i].writer]) {
      Add("read before it is there", actor, address,
          "a load of what " + NameOf(cell[i].writer) +
              " writes, with no barrier between");
    }
  }
}

void SharedMemory::MakeBarrier(const Actor& actor, uint32_t address) {
  CheckReaders(actor, address, "a barrier");
  for (int i = 0; i < 8; ++i) CellAt(address)[i] = {kBarrierBytes, 1};
}

void SharedMemory::IssueLoad(const Actor& actor, uint32_t address,
                             const Origin& origin, int barrier,
                             uint32_t phase) {
  CheckReaders(actor, address, "a copy of the copy engine");
  Cell* cell = CellAt(address);
  const Knowledge& known = actor.knowledge;
  for (uint32_t i = 0; i < kChunk; ++i) {
    const Agent writer = cell[i].writer;
    if (cell[i].deed != 0 && writer == kBarrierBytes) {
      Add("barrier overwritten", actor, address, "a copy of the copy engine");
    } else if (writer < kMaxThreads) {
      if (cell[i].deed > known.fenced[writer]) {
        Add("missing proxy fence", actor, address,
            "the copy engine is to write where " + NameOf(writer) +
                " wrote, with no fence of the asynchronous proxy between");
      }
    } else if (cell[i].deed > known.seen[writer]) {
      Add("overwritten while in flight", actor, address,
          "the copy engine is to write what an earlier copy has yet to bring");
    }
    cell[i] = {static_cast<Agent>(kFirstBarrier + barrier), phase + 1};
  }
  origins_[(address - kBase) / kChunk] = origin;
}

void SharedMemory::IssueRead(const Actor& actor, uint32_t address,
                             const AsyncRead& read) {
  const Knowledge& known = actor.knowledge;
  const Cell* cell = CellAt(address);
  for (uint32_t i = 0; i < kChunk; ++i) {
    const Agent writer = cell[i].writer;
    const uint32_t deed = cell[i].deed;
    if (i > 0 && writer == cell[i - 1].writer && deed == cell[i - 1].deed) {
      continue;
    }
    if (deed == 0) {
      Add("uninitialised read", actor, address,
          std::string(read.what) + " reads what none wrote");
    } else if (writer == kBarrierBytes) {
      Add("barrier read", actor, address, read.what);
    } else if (writer < kMaxThreads && deed > known.fenced[writer]) {
      Add("missing proxy fence", actor, address,
          std::string(read.what) + " reads what " + NameOf(writer) + " wrote" +
              (deed > known.seen[writer]
                   ? ", with no barrier between"
                   : ", with no fence of the asynchronous proxy between"));
    } else if (writer >= kFirstBarrier && deed > known.seen[writer]) {
      Add("read before it is there", actor, address,
          std::string(read.what) +
              " reads what the copy engine has yet to bring: its barrier was"
              " not waited for");
    }
  }
  uint32_t& last =
      readers_[(address - kBase) / kChunk][static_cast<size_t>(read.reader)];
  last = std::max(last, read.deed);
}

}  // namespace gemmd::emulator
