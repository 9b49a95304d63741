// One limit for all that a cache directory holds: entries, tuning records,
// what is in quarantine and what is being written. Room is made before a byte
// is written. Thread-safe, and safe between processes.
//
// What goes first: tuning records beyond an eighth of the limit, then what is
// in quarantine, then entries; of each the least recently used. A little more
// entries go than have to, so that not every write looks at every file.
#ifndef GEMMD_JIT_CACHE_QUOTA_H_
#define GEMMD_JIT_CACHE_QUOTA_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "jit/base/folder.h"
#include "jit/cache/publish.h"

namespace gemmd::jit {

inline constexpr char kEntriesFolder[] = "entries";
inline constexpr char kQuarantineFolder[] = "quarantine";
inline constexpr char kTuningFolder[] = "tuning";
inline constexpr char kIdentityFolder[] = "identity";  // Of the compiler.

// Of a directory that nobody gave a limit.
inline constexpr int64_t kDefaultLimitBytes = int64_t{4} << 30;

struct QuotaOptions {
  std::string directory;
  // Of all files together, 0: none. Told to other writers of the directory.
  // Nothing: what was told last, else kDefaultLimitBytes.
  std::optional<int64_t> limit_bytes;
};

// Publishes the file `name` in `folder`. RESOURCE_EXHAUSTED when it is larger
// than the limit, UNAVAILABLE when others hold the directory's lock for long.
absl::Status WriteWithinQuota(const QuotaOptions& options, const char* folder,
                              const std::string& name, absl::string_view bytes,
                              const PublishHook& hook);

// Removes what crashes left and what is above `limit_bytes` (nothing: the
// directory's own limit).
absl::Status CollectGarbage(const QuotaOptions& options,
                            std::optional<int64_t> limit_bytes);

// Bytes on disk of all files of the cache. What else lies beside its folders is
// nobody's to count: no room can be made of it.
int64_t BytesUsed(const std::string& directory, FolderAccess access);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_QUOTA_H_
