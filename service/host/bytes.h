// Memory for matrices and answers.
#ifndef GEMMD_SERVICE_HOST_BYTES_H_
#define GEMMD_SERVICE_HOST_BYTES_H_

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace gemmd::host {

struct FreeBytes {
  void operator()(char* bytes) const { std::free(bytes); }
};
using Bytes = std::unique_ptr<char[], FreeBytes>;

// Of any content; null where there is no memory. What is large lies in huge
// pages where the system has them: else most of the time of a large answer goes
// into the first touch of each page of 4 KiB.
Bytes AllocateBytes(size_t size);

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_BYTES_H_
