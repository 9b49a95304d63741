// wgmma.mma_async and wgmma.mma_async.sp. PTX ISA, "Asynchronous Warpgroup
// Level Matrix Multiply-Accumulate Instructions".
//
// The instruction itself is generated with each instance, as
//
//   struct Wgmma {
//     using Register = float;  // int for s32 sums, uint32 for pairs of f16.
//     static constexpr int kRegisters;  // Per thread, for 64 x n sums.
//     // Multiplies 64 lines of X by n of Y, 32 bytes of k, both given by
//     // descriptors, into the sums of a warpgroup. With `accumulate` 0 the old
//     // sums are not read.
//     static void Issue(Register (&d)[kRegisters], uint64 x, uint64 y,
//                       int accumulate);
//   };
//
// Where X is sparse, 64 bytes of k of Y meet the half of X's that is there:
//
//     // Takes the metadata of threads 2 * kSelector and the one behind it of
//     // every four, with 8-bit elements those of all: kSelector 0.
//     template <int kSelector>
//     static void Issue(Register (&d)[kRegisters], uint64 x, uint64 y,
//                       int metadata, int accumulate);
//
// Where X is widened it comes from registers, which nobody may touch until the
// instruction has ended:
//
//     static void Issue(Register (&d)[kRegisters], const uint32 (&x)[4],
//                       uint64 y, int accumulate);
#pragma once

#include "common/types.h"
#include "ptx/delay.h"

namespace gemmd::ptx {

struct Wgmma;

// Orders register and shared-memory accesses before the next wgmma.
inline void WgmmaFence() {
  Delay();
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Closes a group of the wgmma issued since the last one.
inline void WgmmaCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most kPending groups are in flight.
template <int kPending>
inline void WgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
  Delay();
}

// Keeps the registers that wgmma reads X or metadata from until here, behind a
// wait.
// ptxas believes that they have been read when it is issued, and uses them for
// something else (seen with CUDA 13 on an H200): so they are stored where
// `unknown_zero`, of which compilers know nothing, is not 0.
inline void Hold(const uint32 (&x)[4], uint32 unknown_zero) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.u32 p, %4, 0;\n"
      "@p st.shared.v4.u32 [%4], {%0, %1, %2, %3};\n"
      "}" ::"r"(x[0]),
      "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(unknown_zero)
      : "memory");
}

inline void Hold(int metadata, uint32 unknown_zero) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.u32 p, %1, 0;\n"
      "@p st.shared.u32 [%1], %0;\n"
      "}" ::"r"(metadata),
      "r"(unknown_zero)
      : "memory");
}

}  // namespace gemmd::ptx
