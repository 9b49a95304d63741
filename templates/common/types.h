// The few types that device code needs, declared here because templates
// include no toolkit or standard header.
#pragma once

#include "common/geometry.h"

namespace gemmd {

using uint8 = unsigned char;
using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;
using int64 = long long;
static_assert(sizeof(uint8) == 1 && sizeof(uint16) == 2 &&
              sizeof(uint32) == 4 && sizeof(uint64) == 8);

// Element types of matrices, beside float and int; only their size and
// identity matter, arithmetic happens in the tensor core, in f32 and in s32.
struct BFloat16 {
  uint16 bits;
};
struct Float16 {
  uint16 bits;
};
struct E4m3 {
  uint8 bits;
};
struct E5m2 {
  uint8 bits;
};
struct S8 {
  uint8 bits;
};
struct U8 {
  uint8 bits;
};
struct S4 {  // Two to a byte.
  uint8 bits;
};
struct U4 {
  uint8 bits;
};
struct EightBits {  // Of b1, the first in the lowest bit.
  uint8 bits;
};

template <typename A, typename B>
inline constexpr bool kSame = false;
template <typename A>
inline constexpr bool kSame<A, A> = true;
template <typename A, typename B>
concept SameAs = kSame<A, B>;

template <bool kCondition, typename A, typename B>
struct IfType {
  using Type = A;
};
template <typename A, typename B>
struct IfType<false, A, B> {
  using Type = B;
};
template <bool kCondition, typename A, typename B>
using If = typename IfType<kCondition, A, B>::Type;

}  // namespace gemmd
