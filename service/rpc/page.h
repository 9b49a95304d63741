// Lists that are answered a page at a time.
#ifndef GEMMD_SERVICE_RPC_PAGE_H_
#define GEMMD_SERVICE_RPC_PAGE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace gemmd::rpc {

// How many entries the page has for which a request asks; 0: as many as any.
// INVALID_ARGUMENT.
inline absl::StatusOr<size_t> PageSize(int32_t asked) {
  constexpr int32_t kMost = 1000;
  if (asked < 0 || asked > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size is ", asked, "; allowed: 0 to ", kMost));
  }
  return asked == 0 ? kMost : asked;
}

// `list` without what is beyond `size`: one more than asked for tells whether
// there is another page.
template <typename List>
bool HasNextPage(List& list, size_t size) {
  if (list.size() <= size) return false;
  list.resize(size);
  return true;
}

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_PAGE_H_
