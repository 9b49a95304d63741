// The words of templates/ptx for the host, so that tests can run kernels that
// need neither barriers nor shared memory: one thread after the other.
#pragma once

#include "common/types.h"

#define __global__
#define __grid_constant__
#define __launch_bounds__(threads)

namespace gemmd::ptx {

inline uint32 thread_index = 0;
inline uint32 cta_index = 0;
inline uint32 cta_count = 1;

inline uint32 ThreadIndex() { return thread_index; }
inline uint32 CtaIndex() { return cta_index; }
inline uint32 CtaCount() { return cta_count; }

}  // namespace gemmd::ptx
