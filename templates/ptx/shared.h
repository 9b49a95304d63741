// Shared memory: addresses, plain accesses and the matrix stores and loads
// between warp fragments and rows of 16 bytes. PTX ISA, stmatrix, ldmatrix.
#pragma once

#include "common/types.h"

namespace gemmd::ptx {

// Address of the CTA's dynamic shared memory in the shared window.
inline uint32 SharedBase() {
  extern __shared__ __align__(1024) unsigned char shared[];
  return static_cast<uint32>(__cvta_generic_to_shared(shared));
}

inline void StoreShared(uint32 address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

inline void StoreShared(uint32 address, int value) {
  asm volatile("st.shared.s32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

inline void StoreShared(uint32 address, float first, float second) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(first),
               "f"(second)
               : "memory");
}

inline void StoreShared(uint32 address, int first, int second) {
  asm volatile("st.shared.v2.s32 [%0], {%1, %2};" ::"r"(address), "r"(first),
               "r"(second)
               : "memory");
}

// The low 16 or 8 bits of `value`.
inline void StoreShared16(uint32 address, uint32 value) {
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(address),
               "h"(static_cast<uint16>(value))
               : "memory");
}

inline void StoreShared8(uint32 address, uint32 value) {
  asm volatile("st.shared.b8 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

inline void LoadShared(uint32 address, float& value) {
  asm volatile("ld.shared.f32 %0, [%1];"
               : "=f"(value)
               : "r"(address)
               : "memory");
}

inline void LoadShared(uint32 address, float& first, float& second) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
               : "=f"(first), "=f"(second)
               : "r"(address)
               : "memory");
}

inline void LoadShared(uint32 address, int& value) {
  asm volatile("ld.shared.s32 %0, [%1];"
               : "=r"(value)
               : "r"(address)
               : "memory");
}

// Four words at a multiple of 16.
inline void LoadShared(uint32 address, float (&v)[4]) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
               : "r"(address)
               : "memory");
}

inline void LoadShared(uint32 address, int (&v)[4]) {
  asm volatile("ld.shared.v4.s32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(address)
               : "memory");
}

inline void LoadSharedWords(uint32 address, uint32* to) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
}

// An element of 8 bits.
template <typename T>
inline void LoadShared(uint32 address, T& element) {
  uint32 bits;
  asm volatile("ld.shared.u8 %0, [%1];" : "=r"(bits) : "r"(address) : "memory");
  element = {static_cast<uint8>(bits)};
}

// Four 8x8 matrices of 16-bit elements. Lanes 8i to 8i + 7 give the row
// addresses of matrix i, whose fragment is in values[i].
inline void StoreMatrix(uint32 address, const uint32 (&v)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
          address),
      "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
      : "memory");
}

// The same with each matrix transposed.
inline void StoreMatrixTransposed(uint32 address, const uint32 (&v)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], "
      "{%1, %2, %3, %4};" ::"r"(address),
      "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
      : "memory");
}

// Two 8x8 matrices; lanes 0 to 15 give the addresses.
inline void StoreMatrix(uint32 address, const uint32 (&v)[2]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(address),
      "r"(v[0]), "r"(v[1])
      : "memory");
}

inline void StoreMatrixTransposed(uint32 address, const uint32 (&v)[2]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(
          address),
      "r"(v[0]), "r"(v[1])
      : "memory");
}

inline void LoadMatrix(uint32 address, uint32 (&v)[4]) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
      : "r"(address)
      : "memory");
}

inline void LoadMatrixTransposed(uint32 address, uint32 (&v)[4]) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
      : "r"(address)
      : "memory");
}

inline void LoadMatrix(uint32 address, uint32 (&v)[2]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(v[0]), "=r"(v[1])
               : "r"(address)
               : "memory");
}

inline void LoadMatrixTransposed(uint32 address, uint32 (&v)[2]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(v[0]), "=r"(v[1])
               : "r"(address)
               : "memory");
}

}  // namespace gemmd::ptx
