// What the writers of a cache directory tell each other, in the file that they
// lock: how much it may hold and how much it holds. Read and written under the
// lock (jit/cache/publish.h).
#ifndef GEMMD_JIT_CACHE_LEDGER_H_
#define GEMMD_JIT_CACHE_LEDGER_H_

#include <cstdint>
#include <optional>

namespace gemmd::jit {

struct Ledger {
  // As the last daemon said; 0: no limit.
  std::optional<int64_t> limit_bytes;
  // Of all files together, or more: whoever writes adds to it first, so that
  // a crash leaves too much. Trusted while the folder of entries was last
  // changed at `changed_ns`, by the writer of this.
  std::optional<int64_t> used_bytes;
  int64_t changed_ns = 0;
};

// What `lock_file` holds; nothing when it holds something else.
Ledger ReadLedger(int lock_file);

// Losing it costs a look at every file: errors are not reported.
void WriteLedger(int lock_file, const Ledger& ledger);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_LEDGER_H_
