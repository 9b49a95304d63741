// The shared memory of a CTA: its bytes, and for each who wrote it last and who
// may still be reading it, so that what is not ordered by barriers and fences
// is reported whatever the order of this run. Thread-compatible.
//
// An access of the asynchronous proxy is judged when it is issued. Reads by
// threads are checked against writes before them, not kept for writes after.
#ifndef GEMMD_TESTS_EMULATOR_MACHINE_SHARED_MEMORY_H_
#define GEMMD_TESTS_EMULATOR_MACHINE_SHARED_MEMORY_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/emulator/machine/knowledge.h"
#include "tests/emulator/machine/reports.h"

namespace gemmd::emulator {

// Where 16 bytes of shared memory came from in a matrix of a tensor map.
struct Origin {
  const void* map = nullptr;  // Null: not brought by the copy engine.
  int x = 0;
  int y = 0;
  int z = 0;
};

// A thread as memory sees it.
struct Actor {
  int thread = 0;
  Knowledge knowledge;
  // What it knows of the peers in its cluster, by rank: what they told it.
  std::map<int, Knowledge> of_peers;

  uint32_t epoch() const { return knowledge.seen[static_cast<size_t>(thread)]; }
  // What follows is told from what came before.
  void Advance() { ++knowledge.seen[static_cast<size_t>(thread)]; }
};

class SharedMemory {
 public:
  // Address of the first byte of dynamic shared memory, as on sm_90.
  static constexpr uint32_t kBase = 1024;
  static constexpr uint32_t kChunk = 16;

  SharedMemory(uint32_t bytes, Reports& reports);

  // By a thread.
  void Write(const Actor& actor, uint32_t address, const void* from,
             uint32_t bytes);
  void Read(const Actor& actor, uint32_t address, void* to, uint32_t bytes);
  // The 8 bytes of a barrier are nobody else's from now on.
  void MakeBarrier(const Actor& actor, uint32_t address);

  // A copy of the copy engine into whole chunks, issued by `actor`, that lands
  // with phase `phase` of barrier number `barrier`.
  void IssueLoad(const Actor& actor, uint32_t address, const Origin& origin,
                 int barrier, uint32_t phase);
  // A read of a chunk by the asynchronous proxy, issued by `actor`: deed `deed`
  // of reader number `reader`.
  struct AsyncRead {
    const char* what;
    int reader;
    uint32_t deed;
  };
  void IssueRead(const Actor& actor, uint32_t address, const AsyncRead& read);
  // Whether nobody has written into the chunk.
  bool IsUnwritten(uint32_t address) const {
    return cells_[address - kBase].deed == 0;
  }
  const Origin& OriginOf(uint32_t address) const {
    return origins_[(address - kBase) / kChunk];
  }

  // The bytes as they are now. False, with a report, outside of it.
  bool Contains(uint32_t address, uint64_t bytes, const char* what);
  unsigned char* At(uint32_t address) { return &bytes_[address - kBase]; }

 private:
  struct Cell {
    Agent writer = 0;
    uint32_t deed = 0;  // 0: never written.
  };
  using Readers = std::array<uint32_t, kMaxReaders>;

  Cell* CellAt(uint32_t address) { return &cells_[address - kBase]; }
  void CheckReaders(const Actor& actor, uint32_t address, const char* what);
  void Add(const char* kind, const Actor& actor, uint32_t address,
           const std::string& text);

  Reports& reports_;
  std::vector<unsigned char> bytes_;
  std::vector<Cell> cells_;       // Of each byte.
  std::vector<Origin> origins_;   // Of each chunk.
  std::vector<Readers> readers_;  // Last deeds of the readers of each chunk.
};

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MACHINE_SHARED_MEMORY_H_
