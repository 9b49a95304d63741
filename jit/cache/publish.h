// How a file gets into a cache directory: readers find all of it or nothing,
// whatever crashes, and it is still there after a power cut.
#ifndef GEMMD_JIT_CACHE_PUBLISH_H_
#define GEMMD_JIT_CACHE_PUBLISH_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "jit/base/file.h"

namespace gemmd::jit {

// Folder of files that are being written. What lies there while nobody writes
// was left by a crash.
inline constexpr char kTemporaryFolder[] = "temporary";
// Whose lock a writer holds. It has the ledger in it (jit/cache/ledger.h).
inline constexpr char kLockFile[] = "lock";

// Steps of publishing, in order, for tests that make them fail or that end the
// process there.
enum class PublishStep {
  kBeforeWrite,
  kHalfWritten,
  kBeforeSync,
  kBeforeRename,
  kAfterRename,
};
using PublishHook = std::function<absl::Status(PublishStep)>;

// The lock that a writer of `directory`, which is there, holds while it writes:
// released by closing it. On a network file system, whose locks may hang or
// lie, nothing is locked. UNAVAILABLE when others hold it for 10 seconds.
absl::StatusOr<UniqueFd> LockDirectory(const std::string& directory);

// Makes `bytes` the content of the file `name` in `folder` of `directory`, in
// place of what was there. The caller holds the directory's lock. `hook` may be
// null.
absl::Status PublishFile(const std::string& directory, const char* folder,
                         const std::string& name, absl::string_view bytes,
                         const PublishHook& hook);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_PUBLISH_H_
