// Work in parts, on threads that are there for it alone. Thread-safe.
#ifndef GEMMD_JIT_BASE_FOR_EACH_H_
#define GEMMD_JIT_BASE_FOR_EACH_H_

#include <cstdint>
#include <functional>

namespace gemmd::jit {

// Calls part(i) for every i below `count`, on up to `threads` threads, this one
// among them; on fewer where the system gives no more. Returns when all have.
void ForEach(int64_t threads, int64_t count,
             const std::function<void(int64_t)>& part);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_FOR_EACH_H_
