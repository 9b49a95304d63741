// The steps of AddPlainly on vectors of f64, in which all of them are exact:
// scaled to units of the last bit kept, terms are below 2^28, their sums below
// 2^34. Infinities and NaNs need no step of their own.
//
// Compiled once for each kind of processor; the first call chooses. Not by
// Highway's own choice (HWY_DYNAMIC_DISPATCH), which is in its library: that
// measures a clock for 3 ms whenever a program starts.
// Vectors of no fixed size cannot be members; who has SSSE3 has more.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "service/host/hopper/add.cc"
#include <hwy/foreach_target.h>
// After it.
#include <hwy/highway.h>

#include <atomic>
#include <vector>

#include "service/host/hopper/add.h"

HWY_BEFORE_NAMESPACE();
namespace gemmd::host::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR

// A processor without vectors that would help.
void AddLanes(const Adder& adder, const Factors& a, const Factors& b,
              int instructions, const PanelSums& sums) {
  AddPlainly(adder, a, b, instructions, sums);
}

#else

namespace hn = hwy::HWY_NAMESPACE;

// Four vectors of F64 have the lanes of one of Exponents.
using F64 = hn::ScalableTag<double>;
using Bits = hn::RebindToUnsigned<F64>;
using Wide = hn::RebindToSigned<F64>;
using Narrow = hn::Rebind<int16_t, F64>;
using Middle = hn::Rebind<int32_t, F64>;
using Exponents = hn::Repartition<int16_t, F64>;
using Vector = hn::Vec<F64>;

constexpr F64 kF64;
constexpr uint64_t kExponentBits = 0x7ff0000000000000;
constexpr int kFraction = 52;
constexpr int kBias = 1023;

HWY_INLINE Vector PowerOf(const int16_t* exponents) {
  const auto wide = hn::PromoteTo(
      Wide(), hn::PromoteTo(Middle(), hn::Load(Narrow(), exponents)));
  const auto biased = hn::Add(wide, hn::Set(Wide(), kBias));
  return hn::BitCast(kF64, hn::ShiftLeft<kFraction>(biased));
}

HWY_INLINE Vector Masked(Vector value, uint64_t mask) {
  return hn::And(value, hn::BitCast(kF64, hn::Set(Bits(), mask)));
}

// The greatest power of two in a magnitude; of zero, zero.
HWY_INLINE Vector LeadingPower(Vector value) {
  return Masked(value, kExponentBits);
}

HWY_INLINE Vector InfiniteFrom(Vector value, Vector magnitude, double limit) {
  const auto infinity = hn::BitCast(kF64, hn::Set(Bits(), kExponentBits));
  return hn::IfThenElse(hn::Ge(magnitude, hn::Set(kF64, limit)),
                        hn::CopySign(infinity, value), value);
}

// As the accumulator holds it; zero is positive.
template <Adder::Sum kSum>
HWY_INLINE Vector Accumulated(Vector value, int sum_bits) {
  if constexpr (kSum == Adder::Sum::kF16) {
    // Adding a number whose last bit is that of the result rounds.
    const auto power = hn::Max(LeadingPower(value), hn::Set(kF64, 0x1p-14));
    const auto rounding = hn::Mul(power, hn::Set(kF64, 0x1.8p42));
    const auto sum = hn::Sub(hn::Add(value, rounding), rounding);
    const auto magnitude = hn::Abs(value);
    const auto finite =
        hn::IfThenElse(hn::Ge(magnitude, hn::Set(kF64, 0x1p16)), value, sum);
    return hn::Add(InfiniteFrom(finite, hn::Abs(finite), 0x1p16),
                   hn::Zero(kF64));
  } else {
    const auto cut = Masked(value, ~uint64_t{0} << (kFraction - sum_bits));
    const auto sum = hn::Mul(hn::Trunc(hn::Mul(cut, hn::Set(kF64, 0x1p149))),
                             hn::Set(kF64, 0x1p-149));
    return hn::Add(InfiniteFrom(sum, hn::Abs(sum), 0x1p128), hn::Zero(kF64));
  }
}

// What one vector of sums goes through in one instruction.
class Lanes {
 public:
  // `top` has the greatest exponents of the products.
  HWY_INLINE void Begin(const Adder& adder, const int16_t* top,
                        const double* sums) {
    const auto old = hn::Load(kF64, sums);
    const auto none = hn::Eq(old, hn::Zero(kF64));
    const auto least =
        hn::Set(kF64, adder.sum == Adder::Sum::kF16 ? 0x1p-14 : 0x1p-126);
    const auto of_old = hn::IfThenElse(none, hn::Zero(kF64),
                                       hn::Max(LeadingPower(old), least));
    const auto power = hn::Max(PowerOf(top), of_old);
    // 2^kept_bits / power, and its reciprocal, by their exponents.
    const auto exponents = hn::Sub(
        hn::Set(Bits(), static_cast<uint64_t>(2 * kBias + adder.kept_bits)
                            << kFraction),
        hn::BitCast(Bits(), power));
    scale_ = hn::BitCast(kF64, exponents);
    unit_ =
        hn::Mul(power, hn::Set(kF64, 1.0 / (int64_t{1} << adder.kept_bits)));
    total_ = hn::Add(hn::Zero(kF64), hn::Trunc(hn::Mul(old, scale_)));
  }

  HWY_INLINE void Add(Vector a, const double* b) {
    const auto product = hn::Mul(a, hn::Load(kF64, b));
    total_ = hn::Add(total_, hn::Trunc(hn::Mul(product, scale_)));
  }

  template <Adder::Sum kSum>
  HWY_INLINE void End(const Adder& adder, double* sums) const {
    hn::Store(Accumulated<kSum>(hn::Mul(total_, unit_), adder.sum_bits), kF64,
              sums);
  }

 private:
  Vector scale_;
  Vector unit_;
  Vector total_;
};

template <Adder::Sum kSum>
void AddAs(const Adder& adder, const Factors& a, const Factors& b,
           int instructions, const PanelSums& sums) {
  constexpr Exponents kExponents;
  const size_t wide = hn::Lanes(kF64);
  HWY_ALIGN int16_t top[HWY_MAX_BYTES / sizeof(int16_t)];
  for (int64_t i = 0; i < sums.rows; ++i) {
    for (size_t j = 0; j < kPanel; j += 4 * wide) {
      double* const to = sums.values + i * sums.pitch + j;
      for (int step = 0; step < instructions; ++step) {
        const int64_t k = static_cast<int64_t>(step) * adder.products;
        const double* const a_values = a.values + i * a.pitch + k;
        const int16_t* const a_exponents = a.exponents + i * a.pitch + k;
        const double* b_values = b.values + k * b.pitch + j;
        const int16_t* b_exponents = b.exponents + k * b.pitch + j;
        auto greatest = hn::Set(kExponents, kLeastAlignment);
        for (int p = 0; p < adder.products; ++p, b_exponents += b.pitch) {
          greatest =
              hn::Max(greatest, hn::Add(hn::Load(kExponents, b_exponents),
                                        hn::Set(kExponents, a_exponents[p])));
        }
        hn::Store(greatest, kExponents, top);
        Lanes first, second, third, fourth;
        first.Begin(adder, top, to);
        second.Begin(adder, top + wide, to + wide);
        third.Begin(adder, top + 2 * wide, to + 2 * wide);
        fourth.Begin(adder, top + 3 * wide, to + 3 * wide);
        for (int p = 0; p < adder.products; ++p, b_values += b.pitch) {
          const auto factor = hn::Set(kF64, a_values[p]);
          first.Add(factor, b_values);
          second.Add(factor, b_values + wide);
          third.Add(factor, b_values + 2 * wide);
          fourth.Add(factor, b_values + 3 * wide);
        }
        first.End<kSum>(adder, to);
        second.End<kSum>(adder, to + wide);
        third.End<kSum>(adder, to + 2 * wide);
        fourth.End<kSum>(adder, to + 3 * wide);
      }
    }
  }
}

void AddLanes(const Adder& adder, const Factors& a, const Factors& b,
              int instructions, const PanelSums& sums) {
  if (adder.sum == Adder::Sum::kF16) {
    AddAs<Adder::Sum::kF16>(adder, a, b, instructions, sums);
  } else {
    AddAs<Adder::Sum::kF32>(adder, a, b, instructions, sums);
  }
}

#endif  // HWY_TARGET

}  // namespace
}  // namespace gemmd::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace gemmd::host {

namespace {

#if HWY_ARCH_X86
// Whether the processor and the system have all that the compiler may use for
// the kind (HWY_TARGET_STR_... in hwy/ops/set_macros-inl.h).
bool HasSse4() {
  return __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") &&
         __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") &&
         __builtin_cpu_supports("aes");
}
bool HasAvx2() {
  return HasSse4() && __builtin_cpu_supports("avx") &&
         __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}
bool HasAvx3() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw");
}
#endif

std::vector<Vectors> FindKinds() {
  std::vector<Vectors> kinds;
  // What is compiled beside the kind that any processor of this build has.
#if HWY_ARCH_X86 && HWY_STATIC_TARGET > HWY_AVX3
  if (HasAvx3()) kinds.push_back({"AVX3", N_AVX3::AddLanes});
#endif
#if HWY_ARCH_X86 && HWY_STATIC_TARGET > HWY_AVX2
  if (HasAvx2()) kinds.push_back({"AVX2", N_AVX2::AddLanes});
#endif
#if HWY_ARCH_X86 && HWY_STATIC_TARGET > HWY_SSE4
  if (HasSse4()) kinds.push_back({"SSE4", N_SSE4::AddLanes});
#endif
  kinds.push_back({"static", HWY_STATIC_DISPATCH(AddLanes)});
  return kinds;
}

std::atomic<const Vectors*>& Choice() {
  static std::atomic<const Vectors*> choice = &KindsOfVectors().front();
  return choice;
}

}  // namespace

absl::Span<const Vectors> KindsOfVectors() {
  static const auto& kinds = *new std::vector<Vectors>(FindKinds());
  return kinds;
}

void UseVectors(const Vectors& vectors) { Choice() = &vectors; }

void Add(const Adder& adder, const Factors& a, const Factors& b,
         int instructions, const PanelSums& sums) {
  Choice().load()->add(adder, a, b, instructions, sums);
}

}  // namespace gemmd::host

#endif  // HWY_ONCE
