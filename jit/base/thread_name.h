// The name of a thread, as ps -L, top -H and debuggers show it.
#ifndef GEMMD_JIT_BASE_THREAD_NAME_H_
#define GEMMD_JIT_BASE_THREAD_NAME_H_

#include <sys/prctl.h>

namespace gemmd::jit {

// Of the calling thread; the first 15 letters count.
inline void NameThread(const char* name) { prctl(PR_SET_NAME, name); }

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_BASE_THREAD_NAME_H_
