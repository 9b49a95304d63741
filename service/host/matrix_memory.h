// Memory of matrices. What is large is the system's again as soon as it is
// freed, and what is small soon after: malloc keeps blocks of up to 32 MiB, and
// all that lies before one that is in use, in as many heaps as threads
// allocate, so that a daemon without tensors held most of what it once had.
#ifndef GEMMD_SERVICE_HOST_MATRIX_MEMORY_H_
#define GEMMD_SERVICE_HOST_MATRIX_MEMORY_H_

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>

namespace gemmd::host {

// From here on memory is mapped by itself; of less there may be more pieces
// than the system has mappings for.
inline constexpr size_t kMappedBytes = size_t{1} << 20;

struct FreeMatrixMemory {
  void operator()(char* data) const;

  size_t size = 0;
};
using MatrixMemory = std::unique_ptr<char[], FreeMatrixMemory>;

// Of any content; null where there is no memory.
inline MatrixMemory AllocateMatrix(size_t size) {
  if (size < kMappedBytes) {
    return MatrixMemory(new (std::nothrow) char[size], FreeMatrixMemory{size});
  }
  void* const data = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return MatrixMemory(data == MAP_FAILED ? nullptr : static_cast<char*>(data),
                      FreeMatrixMemory{size});
}

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_MATRIX_MEMORY_H_
