// The host device's threads for one product. Thread-safe.
#ifndef GEMMD_SERVICE_HOST_PARALLEL_H_
#define GEMMD_SERVICE_HOST_PARALLEL_H_

#include <cstdint>
#include <functional>

namespace gemmd::host {

// As many as the machine has cores, 7 at most.
int MostThreads();

// That are worth their start for so many multiplications; 1 or more.
int ThreadsFor(int64_t multiplications);

// Calls part(i) for every i below `count`, on up to `threads` threads, this one
// among them. Returns when all have.
void ForEach(int threads, int64_t count,
             const std::function<void(int64_t)>& part);

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_PARALLEL_H_
