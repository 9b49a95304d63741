// Random operands of one problem, in as many copies as it takes for a launch
// never to find its inputs in the L2 cache.
#ifndef GEMMD_TESTS_BENCH_OPERANDS_H_
#define GEMMD_TESTS_BENCH_OPERANDS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "jit/problem/problem.h"
#include "service/gpu/cuda_device.h"
#include "tests/bench/device_code.h"

namespace gemmd::bench {

// What every matrix of a copy is filled from; hosts recompute elements by it.
// Metadata, scales and zero points have the seed of their matrix and one of the
// last.
enum Seed : unsigned {
  kSeedA = 1,
  kSeedB = 2,
  kSeedC = 3,
  kSeedMetadata = 16,
  kSeedScales = 32,
  kSeedZeroPoints = 48
};

// One matrix twice: with lines padded as the daemon stores them, and without
// padding as the library wants them. The same memory where the two agree.
struct Matrix {
  jit::MatrixLayout layout;
  gpu::DeviceBuffer padded;
  gpu::DeviceBuffer separate;  // Empty where `padded` has no padding.
  gpu::DeviceBuffer derived;   // In the form that our kernels read, if another.

  bool odd() const { return layout.pitch_bytes() != layout.width_bytes(); }
  // Metadata are derived too, but read beside what is stored.
  CUdeviceptr ready() const {
    return derived.get() != 0 && !layout.sparse ? derived.get() : padded.get();
  }
  CUdeviceptr unpadded() const { return odd() ? separate.get() : padded.get(); }
};

struct OperandCopy {
  Matrix a, b, d;
  Matrix c;  // Empty unless the problem reads it.
};

class Operands {
 public:
  struct Limits {
    int64_t l2_bytes = 0;  // Of the device.
    int64_t memory_bytes = int64_t{8} << 30;
  };

  // Waits until everything is filled. Padding of inputs and all of D is NaN.
  static absl::StatusOr<Operands> Create(
      const jit::Problem& problem, const gpu::MemoryPool& pool,
      const std::shared_ptr<gpu::Stream>& stream, const DeviceCode& code,
      const Limits& limits);

  // Copies that put at least twice the L2 cache between two uses of one, as
  // far as memory reaches; at least one.
  static int CopyCount(const jit::Problem& problem, const Limits& limits);

  int size() const { return static_cast<int>(copies_.size()); }
  const OperandCopy& operator[](int i) const {
    return copies_[static_cast<size_t>(i) % copies_.size()];
  }
  OperandCopy& operator[](int i) {
    return copies_[static_cast<size_t>(i) % copies_.size()];
  }
  // Whether A or B needs padding before our kernels can take it.
  bool needs_pack() const { return copies_[0].a.odd() || copies_[0].b.odd(); }

 private:
  std::vector<OperandCopy> copies_;
};

}  // namespace gemmd::bench

#endif  // GEMMD_TESTS_BENCH_OPERANDS_H_
