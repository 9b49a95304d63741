// Host twin of templates/ptx/memory.h. Says when a read leaves what a test
// made readable.
#pragma once

#include "common/types.h"

namespace gemmd::ptx {

struct alignas(16) Word {
  uint32 part[4];
};

inline const char* readable_begin = nullptr;
inline const char* readable_end = nullptr;
inline int wild_reads = 0;

inline Word LoadStreaming(const Word* from) {
  const char* at = reinterpret_cast<const char*>(from);
  if (at < readable_begin || at + sizeof(Word) > readable_end) {
    ++wild_reads;
    return {};
  }
  return *from;
}

}  // namespace gemmd::ptx
