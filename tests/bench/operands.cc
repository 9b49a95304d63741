#include "tests/bench/operands.h"

#include <algorithm>
#include <utility>

#include "service/gpu/status.h"

namespace gemmd::bench {
namespace {

constexpr unsigned char kPoison = 0xff;  // NaN in every element type.

class Maker {
 public:
  Maker(const gpu::MemoryPool& pool, const std::shared_ptr<gpu::Stream>& stream,
        const DeviceCode& code)
      : pool_(pool), stream_(stream), code_(code) {}

  absl::StatusOr<Matrix> Poisoned(const jit::MatrixLayout& layout) const {
    Matrix matrix;
    matrix.layout = layout;
    ASSIGN_OR_RETURN(matrix.padded, Poisoned(layout.device_bytes()));
    if (matrix.odd()) {
      ASSIGN_OR_RETURN(matrix.separate,
                       Poisoned(layout.lines() * layout.width_bytes()));
    }
    return matrix;
  }

  absl::StatusOr<Matrix> Random(const jit::MatrixLayout& layout,
                                unsigned seed) const {
    ASSIGN_OR_RETURN(Matrix matrix, Poisoned(layout));
    FillArguments fill = {
        .to = reinterpret_cast<void*>(matrix.padded.get()),
        .pitch = layout.pitch_bytes(),
        .width = layout.width(),
        .lines = layout.lines(),
        .seed = seed,
        .element = ElementOf(layout.type),
        .last_mask = 0xff,
    };
    if (layout.type == jit::DataType::kB1) {
      fill.last_mask = 0xff >> (-layout.width() & 7);
      fill.width = layout.width_bytes();
    }
    // The library has no sparse operands and no weights: nobody reads one
    // without padding.
    if (jit::BitsOf(layout.type) == 4 || layout.quantization.group != 0) {
      RETURN_IF_ERROR(FillWeights(layout, fill));
      return matrix;
    }
    if (layout.sparse) {
      fill.width = layout.width() / 2;
      RETURN_IF_ERROR(code_.Fill(fill, *stream_));
      fill.to = static_cast<char*>(fill.to) + layout.values_bytes();
      fill.width = layout.metadata_bytes();
      fill.seed = seed + kSeedMetadata;
      fill.element = jit::ChunkOf(layout.type) == 4 ? Element::kTwoOfFour
                                                    : Element::kOneOfTwo;
      RETURN_IF_ERROR(code_.Fill(fill, *stream_));
      return matrix;
    }
    RETURN_IF_ERROR(code_.Fill(fill, *stream_));
    if (matrix.odd()) {
      fill.to = reinterpret_cast<void*>(matrix.separate.get());
      fill.pitch = layout.width_bytes();
      RETURN_IF_ERROR(code_.Fill(fill, *stream_));
    }
    return matrix;
  }

 private:
  absl::Status FillWeights(const jit::MatrixLayout& layout,
                           FillArguments fill) const {
    char* const to = static_cast<char*>(fill.to);
    const unsigned seed = fill.seed;
    fill.width = layout.values_bytes();
    RETURN_IF_ERROR(code_.Fill(fill, *stream_));
    if (layout.groups() == 0) return absl::OkStatus();
    if (layout.values_bytes() % 4 != 0) {
      return absl::UnimplementedError("scales that are not aligned");
    }
    fill.to = to + layout.values_bytes();
    fill.width = layout.groups();
    fill.seed = seed + kSeedScales;
    fill.element = Element::kF32;
    RETURN_IF_ERROR(code_.Fill(fill, *stream_));
    if (!layout.quantization.zero_points) return absl::OkStatus();
    fill.to = to + layout.zero_points_at();
    fill.seed = seed + kSeedZeroPoints;
    fill.element = Element::kS8;
    return code_.Fill(fill, *stream_);
  }

  // `bytes` and, for the repitch kernel, what completes the last 16.
  absl::StatusOr<gpu::DeviceBuffer> Poisoned(int64_t bytes) const {
    bytes = (bytes + 15) / 16 * 16;
    ASSIGN_OR_RETURN(gpu::DeviceBuffer buffer, pool_.Allocate(stream_, bytes));
    RETURN_IF_CUDA_ERROR(
        stream_->driver(),
        cuMemsetD8Async(buffer.get(), kPoison, static_cast<size_t>(bytes),
                        stream_->get()));
    return buffer;
  }

  const gpu::MemoryPool& pool_;
  const std::shared_ptr<gpu::Stream>& stream_;
  const DeviceCode& code_;
};

int64_t StoredBytes(const jit::MatrixLayout& layout) {
  const bool odd = layout.pitch_bytes() != layout.width_bytes();
  return layout.device_bytes() * (odd ? 2 : 1);
}

}  // namespace

int Operands::CopyCount(const jit::Problem& problem, const Limits& limits) {
  const int64_t input_bytes =
      problem.a().device_bytes() + problem.b().device_bytes();
  const int64_t copy_bytes = StoredBytes(problem.a()) +
                             StoredBytes(problem.b()) +
                             StoredBytes(problem.d()) +
                             (problem.reads_c() ? StoredBytes(problem.c()) : 0);
  // With n copies, the inputs of n - 1 others pass between two uses of one.
  const int64_t wanted = 1 + (2 * limits.l2_bytes + input_bytes - 1) /
                                 std::max<int64_t>(input_bytes, 1);
  const int64_t affordable =
      limits.memory_bytes / std::max<int64_t>(copy_bytes, 1);
  constexpr int64_t kMost = 1024;
  return static_cast<int>(
      std::clamp<int64_t>(std::min(wanted, affordable), 1, kMost));
}

absl::StatusOr<Operands> Operands::Create(
    const jit::Problem& problem, const gpu::MemoryPool& pool,
    const std::shared_ptr<gpu::Stream>& stream, const DeviceCode& code,
    const Limits& limits) {
  RETURN_IF_ERROR(stream->context().MakeCurrent());
  const Maker maker(pool, stream, code);
  Operands operands;
  const int count = CopyCount(problem, limits);
  for (int i = 0; i < count; ++i) {
    OperandCopy copy;
    if (problem.reads_ab()) {
      ASSIGN_OR_RETURN(copy.a, maker.Random(problem.a(), kSeedA));
      ASSIGN_OR_RETURN(copy.b, maker.Random(problem.b(), kSeedB));
    }
    if (problem.reads_c()) {
      ASSIGN_OR_RETURN(copy.c, maker.Random(problem.c(), kSeedC));
    }
    ASSIGN_OR_RETURN(copy.d, maker.Poisoned(problem.d()));
    operands.copies_.push_back(std::move(copy));
  }
  RETURN_IF_ERROR(stream->Synchronize());
  return operands;
}

}  // namespace gemmd::bench
