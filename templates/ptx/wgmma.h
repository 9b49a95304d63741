// wgmma.mma_async with both operands in shared memory, one specialisation per
// input type and n. PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-
// Accumulate Instructions".
//
// The instruction names every accumulator register, so its text differs with
// n. The lists below are cumulative: those of n = 16 are those of n = 8 and
// four registers more.
#pragma once

#include "common/types.h"

namespace gemmd::ptx {

// Orders register and shared-memory accesses before the next wgmma.
inline void WgmmaFence() {
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
}

// Multiplies a 64 x 16 tile of X by a 16 x kN tile of Y, given by descriptors,
// into the accumulators of a warpgroup. kTransposeX and kTransposeY are 1 for
// mn-major tiles. With `accumulate` 0 the old accumulators are not read.
template <typename Input, int kN>
struct Wgmma;

#define REGISTERS_8 "%0, %1, %2, %3"
#define REGISTERS_16 REGISTERS_8 ", %4, %5, %6, %7"
#define REGISTERS_24 REGISTERS_16 ", %8, %9, %10, %11"
#define REGISTERS_32 REGISTERS_24 ", %12, %13, %14, %15"
#define REGISTERS_40 REGISTERS_32 ", %16, %17, %18, %19"
#define REGISTERS_48 REGISTERS_40 ", %20, %21, %22, %23"
#define REGISTERS_56 REGISTERS_48 ", %24, %25, %26, %27"
#define REGISTERS_64 REGISTERS_56 ", %28, %29, %30, %31"
#define REGISTERS_72 REGISTERS_64 ", %32, %33, %34, %35"
#define REGISTERS_80 REGISTERS_72 ", %36, %37, %38, %39"
#define REGISTERS_88 REGISTERS_80 ", %40, %41, %42, %43"
#define REGISTERS_96 REGISTERS_88 ", %44, %45, %46, %47"
#define REGISTERS_104 REGISTERS_96 ", %48, %49, %50, %51"
#define REGISTERS_112 REGISTERS_104 ", %52, %53, %54, %55"
#define REGISTERS_120 REGISTERS_112 ", %56, %57, %58, %59"
#define REGISTERS_128 REGISTERS_120 ", %60, %61, %62, %63"
#define REGISTERS_136 REGISTERS_128 ", %64, %65, %66, %67"
#define REGISTERS_144 REGISTERS_136 ", %68, %69, %70, %71"
#define REGISTERS_152 REGISTERS_144 ", %72, %73, %74, %75"
#define REGISTERS_160 REGISTERS_152 ", %76, %77, %78, %79"
#define REGISTERS_168 REGISTERS_160 ", %80, %81, %82, %83"
#define REGISTERS_176 REGISTERS_168 ", %84, %85, %86, %87"
#define REGISTERS_184 REGISTERS_176 ", %88, %89, %90, %91"
#define REGISTERS_192 REGISTERS_184 ", %92, %93, %94, %95"
#define REGISTERS_200 REGISTERS_192 ", %96, %97, %98, %99"
#define REGISTERS_208 REGISTERS_200 ", %100, %101, %102, %103"
#define REGISTERS_216 REGISTERS_208 ", %104, %105, %106, %107"
#define REGISTERS_224 REGISTERS_216 ", %108, %109, %110, %111"
#define REGISTERS_232 REGISTERS_224 ", %112, %113, %114, %115"
#define REGISTERS_240 REGISTERS_232 ", %116, %117, %118, %119"
#define REGISTERS_248 REGISTERS_240 ", %120, %121, %122, %123"
#define REGISTERS_256 REGISTERS_248 ", %124, %125, %126, %127"

#define F(i) "+f"(d[i])
#define ACCUMULATORS_8 F(0), F(1), F(2), F(3)
#define ACCUMULATORS_16 ACCUMULATORS_8, F(4), F(5), F(6), F(7)
#define ACCUMULATORS_24 ACCUMULATORS_16, F(8), F(9), F(10), F(11)
#define ACCUMULATORS_32 ACCUMULATORS_24, F(12), F(13), F(14), F(15)
#define ACCUMULATORS_40 ACCUMULATORS_32, F(16), F(17), F(18), F(19)
#define ACCUMULATORS_48 ACCUMULATORS_40, F(20), F(21), F(22), F(23)
#define ACCUMULATORS_56 ACCUMULATORS_48, F(24), F(25), F(26), F(27)
#define ACCUMULATORS_64 ACCUMULATORS_56, F(28), F(29), F(30), F(31)
#define ACCUMULATORS_72 ACCUMULATORS_64, F(32), F(33), F(34), F(35)
#define ACCUMULATORS_80 ACCUMULATORS_72, F(36), F(37), F(38), F(39)
#define ACCUMULATORS_88 ACCUMULATORS_80, F(40), F(41), F(42), F(43)
#define ACCUMULATORS_96 ACCUMULATORS_88, F(44), F(45), F(46), F(47)
#define ACCUMULATORS_104 ACCUMULATORS_96, F(48), F(49), F(50), F(51)
#define ACCUMULATORS_112 ACCUMULATORS_104, F(52), F(53), F(54), F(55)
#define ACCUMULATORS_120 ACCUMULATORS_112, F(56), F(57), F(58), F(59)
#define ACCUMULATORS_128 ACCUMULATORS_120, F(60), F(61), F(62), F(63)
#define ACCUMULATORS_136 ACCUMULATORS_128, F(64), F(65), F(66), F(67)
#define ACCUMULATORS_144 ACCUMULATORS_136, F(68), F(69), F(70), F(71)
#define ACCUMULATORS_152 ACCUMULATORS_144, F(72), F(73), F(74), F(75)
#define ACCUMULATORS_160 ACCUMULATORS_152, F(76), F(77), F(78), F(79)
#define ACCUMULATORS_168 ACCUMULATORS_160, F(80), F(81), F(82), F(83)
#define ACCUMULATORS_176 ACCUMULATORS_168, F(84), F(85), F(86), F(87)
#define ACCUMULATORS_184 ACCUMULATORS_176, F(88), F(89), F(90), F(91)
#define ACCUMULATORS_192 ACCUMULATORS_184, F(92), F(93), F(94), F(95)
#define ACCUMULATORS_200 ACCUMULATORS_192, F(96), F(97), F(98), F(99)
#define ACCUMULATORS_208 ACCUMULATORS_200, F(100), F(101), F(102), F(103)
#define ACCUMULATORS_216 ACCUMULATORS_208, F(104), F(105), F(106), F(107)
#define ACCUMULATORS_224 ACCUMULATORS_216, F(108), F(109), F(110), F(111)
#define ACCUMULATORS_232 ACCUMULATORS_224, F(112), F(113), F(114), F(115)
#define ACCUMULATORS_240 ACCUMULATORS_232, F(116), F(117), F(118), F(119)
#define ACCUMULATORS_248 ACCUMULATORS_240, F(120), F(121), F(122), F(123)
#define ACCUMULATORS_256 ACCUMULATORS_248, F(124), F(125), F(126), F(127)

// X, Y, SCALE, TX, TY are the operand numbers after the accumulators.
#define WGMMA(INPUT, NAME, N, X, Y, SCALE, TX, TY)                        \
  template <>                                                             \
  struct Wgmma<INPUT, N> {                                                \
    template <int kTransposeX, int kTransposeY>                           \
    static inline void Issue(float (&d)[N / 2], uint64 x, uint64 y,       \
                             int accumulate) {                            \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #SCALE            \
                   ", 0;\n"                                               \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." NAME \
                   "." NAME " {" REGISTERS_##N                            \
                   "}, %" #X ", %" #Y ", p, 1, 1, %" #TX ", %" #TY ";\n}" \
                   : ACCUMULATORS_##N                                     \
                   : "l"(x), "l"(y), "r"(accumulate), "n"(kTransposeX),   \
                     "n"(kTransposeY));                                   \
    }                                                                     \
  };

#define WGMMA_16_BIT(N, X, Y, SCALE, TX, TY)      \
  WGMMA(BFloat16, "bf16", N, X, Y, SCALE, TX, TY) \
  WGMMA(Float16, "f16", N, X, Y, SCALE, TX, TY)

WGMMA_16_BIT(8, 4, 5, 6, 7, 8)
WGMMA_16_BIT(16, 8, 9, 10, 11, 12)
WGMMA_16_BIT(24, 12, 13, 14, 15, 16)
WGMMA_16_BIT(32, 16, 17, 18, 19, 20)
WGMMA_16_BIT(40, 20, 21, 22, 23, 24)
WGMMA_16_BIT(48, 24, 25, 26, 27, 28)
WGMMA_16_BIT(56, 28, 29, 30, 31, 32)
WGMMA_16_BIT(64, 32, 33, 34, 35, 36)
WGMMA_16_BIT(72, 36, 37, 38, 39, 40)
WGMMA_16_BIT(80, 40, 41, 42, 43, 44)
WGMMA_16_BIT(88, 44, 45, 46, 47, 48)
WGMMA_16_BIT(96, 48, 49, 50, 51, 52)
WGMMA_16_BIT(104, 52, 53, 54, 55, 56)
WGMMA_16_BIT(112, 56, 57, 58, 59, 60)
WGMMA_16_BIT(120, 60, 61, 62, 63, 64)
WGMMA_16_BIT(128, 64, 65, 66, 67, 68)
WGMMA_16_BIT(136, 68, 69, 70, 71, 72)
WGMMA_16_BIT(144, 72, 73, 74, 75, 76)
WGMMA_16_BIT(152, 76, 77, 78, 79, 80)
WGMMA_16_BIT(160, 80, 81, 82, 83, 84)
WGMMA_16_BIT(168, 84, 85, 86, 87, 88)
WGMMA_16_BIT(176, 88, 89, 90, 91, 92)
WGMMA_16_BIT(184, 92, 93, 94, 95, 96)
WGMMA_16_BIT(192, 96, 97, 98, 99, 100)
WGMMA_16_BIT(200, 100, 101, 102, 103, 104)
WGMMA_16_BIT(208, 104, 105, 106, 107, 108)
WGMMA_16_BIT(216, 108, 109, 110, 111, 112)
WGMMA_16_BIT(224, 112, 113, 114, 115, 116)
WGMMA_16_BIT(232, 116, 117, 118, 119, 120)
WGMMA_16_BIT(240, 120, 121, 122, 123, 124)
WGMMA_16_BIT(248, 124, 125, 126, 127, 128)
WGMMA_16_BIT(256, 128, 129, 130, 131, 132)

}  // namespace gemmd::ptx
