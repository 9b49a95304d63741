// The few types that device code needs, declared here because templates
// include no toolkit or standard header.
#pragma once

namespace gemmd {

using uint16 = unsigned short;
using uint32 = unsigned int;
using uint64 = unsigned long long;
using int64 = long long;
static_assert(sizeof(uint16) == 2 && sizeof(uint32) == 4 &&
              sizeof(uint64) == 8);

// Element types of matrices; only their size and identity matter, arithmetic
// happens in the tensor core and in f32.
struct BFloat16 {
  uint16 bits;
};
struct Float16 {
  uint16 bits;
};

template <typename A, typename B>
inline constexpr bool kSame = false;
template <typename A>
inline constexpr bool kSame<A, A> = true;
template <typename A, typename B>
concept SameAs = kSame<A, B>;

// Which dimension of an operand tile is contiguous in memory.
enum class Major { kK, kMn };

enum class Schedule {
  kCooperative,  // All consumer warpgroups share one tile.
  kPingPong,     // Two consumer warpgroups alternate, each with its own tile.
};

// Which dimension of P is contiguous in D.
enum class Store {
  kNormal,      // Columns, the instruction's n.
  kTransposed,  // Rows, the instruction's m.
};

template <typename T>
constexpr T Min(T a, T b) {
  return a < b ? a : b;
}
constexpr int DivideUp(int a, int b) { return (a + b - 1) / b; }

// Largest divisor of `n` that is a multiple of `unit` and at most `limit`.
constexpr int LargestDivisor(int n, int unit, int limit) {
  int best = unit;
  for (int d = unit; d <= n && d <= limit; d += unit) {
    if (n % d == 0) best = d;
  }
  return best;
}

// Largest power of two that divides `n` and is at most `limit`.
constexpr int PowerOfTwoDivisor(int n, int limit) {
  int best = 1;
  while (2 * best <= limit && n % (2 * best) == 0) best *= 2;
  return best;
}

}  // namespace gemmd
