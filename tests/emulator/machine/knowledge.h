// What is known to have happened, as vector clocks: how far each agent has come
// for all that the holder can tell. Agents are threads, barriers (whose deeds
// are the phases by which copies of the copy engine land), and readers of the
// asynchronous proxy (wgmma of a warpgroup, stores of a thread). Plain data.
#ifndef GEMMD_TESTS_EMULATOR_MACHINE_KNOWLEDGE_H_
#define GEMMD_TESTS_EMULATOR_MACHINE_KNOWLEDGE_H_

#include <algorithm>
#include <array>
#include <cstdint>

namespace gemmd::emulator {

inline constexpr int kMaxThreads = 640;
inline constexpr int kMaxBarriers = 64;
inline constexpr int kMaxReaders = 8;

// Agents by number.
using Agent = uint16_t;
inline constexpr Agent kFirstBarrier = kMaxThreads;
inline constexpr Agent kFirstReader = kFirstBarrier + kMaxBarriers;
inline constexpr Agent kAgents = kFirstReader + kMaxReaders;

struct Knowledge {
  // Deeds of each agent that have happened before.
  std::array<uint32_t, kAgents> seen = {};
  // Of those, the writes that a proxy fence has made visible to the
  // asynchronous proxy.
  std::array<uint32_t, kMaxThreads> fenced = {};

  void Join(const Knowledge& other) {
    for (size_t i = 0; i < seen.size(); ++i) {
      seen[i] = std::max(seen[i], other.seen[i]);
    }
    for (size_t i = 0; i < fenced.size(); ++i) {
      fenced[i] = std::max(fenced[i], other.fenced[i]);
    }
  }
  void Fence() {
    for (size_t i = 0; i < fenced.size(); ++i) {
      fenced[i] = std::max(fenced[i], seen[i]);
    }
  }
};

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MACHINE_KNOWLEDGE_H_
