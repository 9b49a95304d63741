#include "service/host/matrix_memory.h"

#include <malloc.h>

#include <atomic>

namespace gemmd::host {
namespace {

// Of small ones that are freed, malloc gives the system back what lies at the
// end of a heap by itself, and the rest as often as so much has been freed.
constexpr size_t kTrimBytes = size_t{64} << 20;

std::atomic<size_t> freed_bytes = 0;  // Since it last did.

}  // namespace

void FreeMatrixMemory::operator()(char* data) const {
  if (size >= kMappedBytes) {
    munmap(data, size);
    return;
  }
  delete[] data;
  if (freed_bytes.fetch_add(size) + size < kTrimBytes) return;
  if (freed_bytes.exchange(0) >= kTrimBytes) malloc_trim(0);
}

}  // namespace gemmd::host
