// A cache entry: one compiled kernel as one self-describing file.
// The frame is that of jit/base/frame.h with the magic "GEMMDKRN". The body
// holds what the key is made of, so that an entry proves that it is the one
// that was asked for.
#ifndef GEMMD_JIT_CACHE_ENTRY_H_
#define GEMMD_JIT_CACHE_ENTRY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "jit/compile/compiled_kernel.h"

namespace gemmd::jit {

std::string EncodeEntry(const CompiledKernel& kernel);

// The kernel in `bytes`, its checksum and key verified, its texts fit to be
// printed. DATA_LOSS says what is
// wrong; any bytes may be given. Does not look inside the cubin.
absl::StatusOr<CompiledKernel> DecodeEntry(absl::string_view bytes);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_CACHE_ENTRY_H_
