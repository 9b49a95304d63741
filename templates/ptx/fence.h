// Fences between the generic proxy (ordinary accesses) and the asynchronous
// proxy (copy engine and tensor core).
#pragma once

namespace gemmd::ptx {

// Makes this thread's shared-memory writes visible to the async proxy.
inline void FenceAsyncShared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Makes initialised barriers visible to the async proxy.
inline void FenceBarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

}  // namespace gemmd::ptx
