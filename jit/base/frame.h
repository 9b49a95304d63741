// The frame around everything that the cache keeps in a file of its own:
//
//   magic (8 characters), format (u32), 0 (u32), length of the body (u64)
//   body: a record (jit/base/record.h)
//   SHA-256 of everything before it
#ifndef GEMMD_JIT_BASE_FRAME_H_
#define GEMMD_JIT_BASE_FRAME_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd::jit {

struct FrameKind {
  absl::string_view magic;  // 8 characters.
  uint32_t format;
};

std::string Frame(const FrameKind& kind, absl::string_view body);

// The body, a view into `bytes`, its checksum verified. DATA_LOSS says what is
// wrong; any bytes may be given. UNIMPLEMENTED where nothing is but the format:
// another version of the program wrote it, which may run beside this one.
absl::StatusOr<absl::string_view> Unframe(const FrameKind& kind,
                                          absl::string_view bytes);

// What there is of the body when `bytes` are but the start of a frame. Its
// checksum is not verified. Errors as above.
absl::StatusOr<absl::string_view> UnframeStart(const FrameKind& kind,
                                               absl::string_view bytes);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_FRAME_H_
