#include "service/host/bytes.h"

#include <sys/mman.h>

#include <algorithm>

namespace gemmd::host {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kCacheLine = 64;

}  // namespace

Bytes AllocateBytes(size_t size) {
  const bool is_large = size >= 2 * kHugePage;
  void* bytes = nullptr;
  if (posix_memalign(&bytes, is_large ? kHugePage : kCacheLine,
                     std::max<size_t>(size, 1)) != 0) {
    return nullptr;
  }
  if (is_large) {
    // Advice: where it is not taken, pages are small.
    (void)madvise(bytes, size, MADV_HUGEPAGE);
  }
  return Bytes(static_cast<char*>(bytes));
}

}  // namespace gemmd::host
