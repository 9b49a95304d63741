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
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

// Publishes the file `name` in `folder`, unless `wanted` (may be null), asked
// under the directory's lock, says no. RESOURCE_EXHAUSTED when it is larger
// than the limit, UNAVAILABLE when others hold the directory's lock for long.
absl::Status WriteWithinQuota(const QuotaOptions& options, const char* folder,
                              const std::string& name, absl::string_view bytes,
                              const PublishHook& hook,
                              const std::function<bool()>& wanted = nullptr);

// What a collection found and took away. Zeros where there is no limit.
struct Collection {
  int64_t bytes_before = 0;     // On disk, of all files.
  int64_t entries_removed = 0;  // Because of the limit.
};

// Removes what crashes left and what is above `limit_bytes` (nothing: the
// directory's own limit).
absl::StatusOr<Collection> CollectGarbage(const QuotaOptions& options,
                                          std::optional<int64_t> limit_bytes);

// How much the directory may hold, 0: whatever there is room for.
absl::StatusOr<int64_t> LimitBytes(const QuotaOptions& options);

// The least limit under which the directory holds all that it does, and new
// files of so many bytes on disk besides.
int64_t LeastLimitBytes(const std::string& directory, int64_t entry_bytes,
                        int64_t tuning_bytes);

// Bytes on disk of all files of the cache. What else lies beside its folders is
// nobody's to count: no room can be made of it.
int64_t BytesUsed(const std::string& directory, FolderAccess access);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_QUOTA_H_
