// The host device's threads for one product. Thread-safe.
#ifndef GEMMD_SERVICE_HOST_PARALLEL_H_
#define GEMMD_SERVICE_HOST_PARALLEL_H_

#include <cstdint>

namespace gemmd::host {

// As many as the machine has cores, 7 at most.
int MostThreads();

// That are worth their start for so many multiplications; 1 or more.
int ThreadsFor(int64_t multiplications);

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_PARALLEL_H_
