// Names of clients and shapes, as errors show them. Pure functions.
#ifndef GEMMD_SERVICE_RPC_KSERVE_TEXT_H_
#define GEMMD_SERVICE_RPC_KSERVE_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "jit/base/printable.h"

namespace gemmd::rpc::kserve {

// "'name'": nothing in it moves a cursor, and however long it was, it is short.
inline std::string Quoted(absl::string_view name) {
  constexpr size_t kMost = 64;
  return absl::StrCat("'", jit::Printable(name.substr(0, kMost)),
                      name.size() > kMost ? "..." : "", "'");
}

// "[2,-1]".
inline std::string Shown(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

}  // namespace gemmd::rpc::kserve

#endif  // GEMMD_SERVICE_RPC_KSERVE_TEXT_H_
