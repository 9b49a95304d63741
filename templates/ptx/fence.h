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

// Before this thread's copies by a tensor map in device memory that the host
// wrote before the launch.
inline void AcquireTensorMap(const void* map) {
  asm volatile(
      "fence.proxy.tensormap::generic.acquire.sys [%0], 128;" ::"l"(map)
      : "memory");
}

}  // namespace gemmd::ptx
