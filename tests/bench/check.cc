#include "tests/bench/check.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "service/gpu/status.h"

namespace gemmd::bench {
namespace {

constexpr unsigned char kPoison = 0xff;  // NaN in every element type.
constexpr int64_t kGuardBytes = 4096;    // Before and behind D.

// Relative error of rounding to the type, and half of its smallest step;
// integers round to whole numbers.
struct Rounding {
  double relative = 0;
  double absolute = 0;
};

Rounding RoundingOf(jit::DataType type) {
  switch (type) {
    case jit::DataType::kBf16:
      return {0x1p-8, 0};
    case jit::DataType::kF16:
      return {0x1p-11, 0x1p-25};
    case jit::DataType::kE4m3:
      return {0x1p-4, 0x1p-10};
    case jit::DataType::kE5m2:
      return {0x1p-3, 0x1p-17};
    case jit::DataType::kS8:
    case jit::DataType::kU8:
      return {0, 0.5};
    case jit::DataType::kS32:
      return {0, 0};
    default:
      return {0x1p-24, 0};
  }
}

double UnitRoundoff(jit::DataType type) { return RoundingOf(type).relative; }

// What the sum over k may lose, relative to the sum of absolute products. The
// tensor core keeps about 14 bits of sums of 8-bit floats, which by default
// are added up in f32 every 128 k.
double SumError(const jit::Problem& problem) {
  const double k = static_cast<double>(problem.k);
  if (problem.accumulator == jit::DataType::kS32) return 0;
  if (problem.accumulator == jit::DataType::kF16) return 2 * k * 0x1p-11;
  double error = 2 * k * 0x1p-24;
  if (jit::IsFp8(problem.a_type)) {
    const bool fast = problem.precision == jit::Precision::kFast;
    error += 2 * (fast ? k : std::min(k, 128.0)) * 0x1p-14;
  }
  if (problem.precision == jit::Precision::kTf32) error += 2 * 0x1p-11;
  if (problem.a_type == jit::DataType::kF32 &&
      problem.precision == jit::Precision::kFast) {
    error += 2 * 0x1p-10;
  }
  return error;
}

struct Place {
  int64_t row = 0;
  int64_t column = 0;
};

// Index of an element in its matrix, as fill.cu counts.
int64_t IndexOf(const jit::MatrixLayout& layout, Place at) {
  return layout.order == jit::Order::kRowMajor
             ? at.row * layout.columns + at.column
             : at.column * layout.rows + at.row;
}

int64_t OffsetOf(const jit::MatrixLayout& layout, Place at) {
  const bool row_major = layout.order == jit::Order::kRowMajor;
  const int64_t line = row_major ? at.row : at.column;
  const int64_t position = row_major ? at.column : at.row;
  return line * layout.pitch_bytes() + position * jit::BytesOf(layout.type);
}

// Of a sparse matrix, of which `line` and `k` are given: zero where the metadata
// of the chunk do not name k.
double SparseOperand(const jit::MatrixLayout& layout, unsigned seed,
                     int64_t line, int64_t k) {
  const Element element = ElementOf(layout.type);
  const int chunk_size = jit::ChunkOf(layout.type);
  const int64_t chunk = k / chunk_size;
  const auto place = static_cast<unsigned>(k % chunk_size);
  const unsigned byte =
      Encode(chunk_size == 4 ? Element::kTwoOfFour : Element::kOneOfTwo,
             RandomValue(seed + kSeedMetadata,
                         static_cast<uint64_t>(
                             line * layout.metadata_bytes() + chunk / 2)));
  const unsigned pattern = byte >> 4 * (chunk % 2) & 0xf;
  const auto value = [&](int64_t i) {
    const auto index = static_cast<uint64_t>(line * (layout.width() / 2) + i);
    return Decode(element, Encode(element, RandomValue(seed, index)));
  };
  if (chunk_size == 2) return pattern == (place ? 0xE : 0x4) ? value(chunk) : 0;
  if ((pattern & 3) == place) return value(2 * chunk);
  return pattern >> 2 == place ? value(2 * chunk + 1) : 0;
}

// Of four bits, or quantized. `i` is the place in `line`.
double Weight(const jit::MatrixLayout& layout, unsigned seed, int64_t line,
              int64_t i) {
  const auto random = [&](Element element, unsigned of, int64_t per_line,
                          int64_t at) {
    const auto index = static_cast<uint64_t>(line * per_line + at);
    return Encode(element, RandomValue(seed + of, index));
  };
  const Element element = ElementOf(layout.type);
  double value;
  if (jit::BitsOf(layout.type) == 4) {
    const unsigned bits =
        random(element, 0, layout.values_bytes(), i / 2) >> i % 2 * 4 & 0xf;
    const bool negative = layout.type == jit::DataType::kS4 && bits >= 8;
    value = static_cast<double>(bits) - (negative ? 16 : 0);
  } else {
    value = Decode(element, random(element, 0, layout.width(), i));
  }
  if (layout.groups() == 0) return value;
  const int64_t group = i / layout.quantization.group;
  if (layout.quantization.zero_points) {
    value -= Decode(Element::kS8, random(Element::kS8, kSeedZeroPoints,
                                         layout.groups(), group));
  }
  return value * Decode(Element::kF32, random(Element::kF32, kSeedScales,
                                              layout.groups(), group));
}

double Operand(const jit::MatrixLayout& layout, unsigned seed, Place at) {
  const Element element = ElementOf(layout.type);
  if (jit::BitsOf(layout.type) == 4 || layout.quantization.group != 0) {
    const bool row_major = layout.order == jit::Order::kRowMajor;
    return Weight(layout, seed, row_major ? at.row : at.column,
                  row_major ? at.column : at.row);
  }
  if (layout.sparse) {
    const bool row_major = layout.order == jit::Order::kRowMajor;
    return SparseOperand(layout, seed, row_major ? at.row : at.column,
                         row_major ? at.column : at.row);
  }
  if (element == Element::kBits) {
    const bool row_major = layout.order == jit::Order::kRowMajor;
    const int64_t line = row_major ? at.row : at.column;
    const int64_t bit = row_major ? at.column : at.row;
    const unsigned byte = Encode(
        element, RandomValue(seed, static_cast<uint64_t>(
                                       line * layout.width_bytes() + bit / 8)));
    return byte >> bit % 8 & 1;
  }
  const float value =
      RandomValue(seed, static_cast<uint64_t>(IndexOf(layout, at)));
  return Decode(element, Encode(element, value));
}

// 8-bit types clamp.
struct Limits {
  double least, most;
};

Limits LimitsOf(jit::DataType type) {
  switch (type) {
    case jit::DataType::kE4m3:
      return {-448, 448};
    case jit::DataType::kE5m2:
      return {-57344, 57344};
    case jit::DataType::kS8:
      return {-128, 127};
    case jit::DataType::kU8:
      return {0, 255};
    default:
      return {-std::numeric_limits<double>::infinity(),
              std::numeric_limits<double>::infinity()};
  }
}

struct Expected {
  double value = 0;
  double bound = 0;
};

// The element of D and its bound: 2k u |alpha| |A||B| for accumulation in
// f32, the rounding of beta * C and of the result.
Expected Expect(const jit::Problem& problem, Place at) {
  // Of elements that are 0 or 1.
  const bool exclusive_or = problem.bit_operation == jit::BitOperation::kXor;
  double sum = 0;
  double size = 0;
  if (problem.reads_ab()) {
    for (int64_t k = 0; k < problem.k; ++k) {
      const double a = Operand(problem.a(), kSeedA, {at.row, k});
      const double b = Operand(problem.b(), kSeedB, {k, at.column});
      const double product = exclusive_or ? a + b - 2 * a * b : a * b;
      sum += product;
      size += std::fabs(product);
    }
  }
  const double alpha = problem.alpha;
  Expected expected = {alpha * sum,
                       SumError(problem) * std::fabs(alpha) * size};
  if (problem.reads_c()) {
    const double c = problem.beta * Operand(problem.c(), kSeedC, at);
    expected.value += c;
    expected.bound += 0x1p-22 * std::fabs(c);
  }
  const Rounding rounding = RoundingOf(problem.d_type);
  if (problem.d_type != jit::DataType::kS32) {
    expected.bound += 0x1p-23 * (std::fabs(alpha) * std::fabs(sum) +
                                 std::fabs(expected.value));
  }
  expected.bound +=
      rounding.relative * (std::fabs(expected.value) + expected.bound) +
      rounding.absolute;
  const Limits limits = LimitsOf(problem.d_type);
  expected.value = std::clamp(expected.value, limits.least, limits.most);
  return expected;
}

}  // namespace

absl::Status Checker::SetReference(const LtProduct& library,
                                   const lt::HeuristicResult& heuristic,
                                   const Operands& operands,
                                   CUdeviceptr workspace) {
  const OperandCopy& copy = operands[0];
  reference_ = 0;
  RETURN_IF_ERROR(library.Enqueue(heuristic,
                                  {.a = copy.a.unpadded(),
                                   .b = copy.b.unpadded(),
                                   .c = copy.c.unpadded(),
                                   .d = copy.d.unpadded(),
                                   .workspace = workspace},
                                  *stream_));
  RETURN_IF_ERROR(stream_->Synchronize());
  reference_ = copy.d.unpadded();
  return absl::OkStatus();
}

absl::StatusOr<CheckResult> Checker::Check(const jit::Problem& problem,
                                           const OurProduct& ours) const {
  const int64_t bytes = problem.d().device_bytes() + 2 * kGuardBytes;
  ASSIGN_OR_RETURN(const gpu::DeviceBuffer buffer,
                   device_.memory().Allocate(stream_, bytes));
  RETURN_IF_CUDA_ERROR(
      stream_->driver(),
      cuMemsetD8Async(buffer.get(), kPoison, static_cast<size_t>(bytes),
                      stream_->get()));
  const CUdeviceptr d = buffer.get() + kGuardBytes;
  RETURN_IF_ERROR(ours.EnqueueInto(d));
  CheckResult result;
  RETURN_IF_ERROR(CountForeign(problem, buffer.get(), result));
  RETURN_IF_ERROR(Sample(problem, d, result));
  if (reference_ != 0) {
    RETURN_IF_ERROR(CompareWithReference(problem, d, result));
  }
  return result;
}

absl::Status Checker::CompareWithReference(const jit::Problem& problem,
                                           CUdeviceptr d,
                                           CheckResult& result) const {
  struct Totals {
    unsigned long long mismatches;
    unsigned largest;
  } totals = {};
  ASSIGN_OR_RETURN(const gpu::DeviceBuffer counters,
                   device_.memory().Allocate(stream_, sizeof(totals)));
  const gpu::DriverTable& driver = stream_->driver();
  RETURN_IF_CUDA_ERROR(driver, cuMemsetD8Async(counters.get(), 0,
                                               sizeof(totals), stream_->get()));
  const jit::MatrixLayout layout = problem.d();
  auto* device_totals = reinterpret_cast<Totals*>(counters.get());
  // Both sides round f32 sums that drift apart like a random walk over k. For
  // odd sizes the library also rounds partial sums to D's type; this finds
  // gross errors, the sample above holds ours to the exact bound.
  const double size = std::sqrt(static_cast<double>(problem.k));
  double walk = size * std::max(0x1p-12, 4 * UnitRoundoff(problem.d_type));
  if (jit::IsFp8(problem.a_type) || problem.a_type == jit::DataType::kF32) {
    walk = size * std::max(0x1p-6, 4 * UnitRoundoff(problem.d_type));
  }
  // Each of k / 16 sums is rounded to f16 at the size of the walk itself.
  if (problem.accumulator == jit::DataType::kF16) {
    walk = static_cast<double>(problem.k) * 0x1p-12;
  }
  if (problem.accumulator == jit::DataType::kS32) {
    walk = RoundingOf(problem.d_type).absolute * 2;
  }
  RETURN_IF_ERROR(code_.Compare(
      {.x = reinterpret_cast<const void*>(d),
       .y = reinterpret_cast<const void*>(reference_),
       .x_pitch = layout.pitch_bytes(),
       .y_pitch = layout.width_bytes(),
       .width = layout.width(),
       .lines = layout.lines(),
       .element = ElementOf(layout.type),
       .absolute =
           static_cast<float>(walk * std::max(1.0f, std::fabs(problem.alpha))),
       .relative =
           static_cast<float>(2 * UnitRoundoff(problem.d_type) + 0x1p-22),
       .mismatches = &device_totals->mismatches,
       .largest = &device_totals->largest},
      *stream_));
  RETURN_IF_CUDA_ERROR(
      driver, cuMemcpyDtoHAsync(&totals, counters.get(), sizeof(totals),
                                stream_->get()));
  RETURN_IF_ERROR(stream_->Synchronize());
  result.compared = true;
  result.mismatches = static_cast<int64_t>(totals.mismatches);
  result.largest_difference = Decode(Element::kF32, totals.largest);
  return absl::OkStatus();
}

absl::Status Checker::CountForeign(const jit::Problem& problem,
                                   CUdeviceptr buffer,
                                   CheckResult& result) const {
  unsigned long long count = 0;
  ASSIGN_OR_RETURN(const gpu::DeviceBuffer counter,
                   device_.memory().Allocate(stream_, sizeof(count)));
  const gpu::DriverTable& driver = stream_->driver();
  RETURN_IF_CUDA_ERROR(
      driver, cuMemsetD8Async(counter.get(), 0, sizeof(count), stream_->get()));
  const jit::MatrixLayout layout = problem.d();
  const auto scan = [&](CUdeviceptr from, int64_t width, int64_t pitch,
                        int64_t lines) {
    return code_.CountForeign(
        {.from = reinterpret_cast<const unsigned char*>(from),
         .pitch = pitch,
         .width = width,
         .lines = lines,
         .expected = kPoison,
         .count = reinterpret_cast<unsigned long long*>(counter.get())},
        *stream_);
  };
  // Lines are padded to 16 bytes, the granularity of the copy engine's stores,
  // so their padding may be written: it belongs to the daemon.
  const CUdeviceptr d = buffer + kGuardBytes;
  RETURN_IF_ERROR(scan(buffer, 0, kGuardBytes, 1));
  RETURN_IF_ERROR(scan(d + static_cast<CUdeviceptr>(layout.device_bytes()), 0,
                       kGuardBytes, 1));
  RETURN_IF_CUDA_ERROR(
      driver,
      cuMemcpyDtoHAsync(&count, counter.get(), sizeof(count), stream_->get()));
  RETURN_IF_ERROR(stream_->Synchronize());
  result.foreign_bytes = static_cast<int64_t>(count);
  return absl::OkStatus();
}

absl::Status Checker::Sample(const jit::Problem& problem, CUdeviceptr d,
                             CheckResult& result) const {
  constexpr int64_t kMostProducts = int64_t{1} << 22;
  const int64_t wanted = std::clamp<int64_t>(
      kMostProducts / std::max<int64_t>(problem.k, 1), 64, 512);
  const jit::MatrixLayout layout = problem.d();
  const Element element = ElementOf(layout.type);
  for (int64_t i = 0; i < wanted; ++i) {
    // The four corners, then anywhere.
    Place at = {i & 1 ? problem.m - 1 : 0, i & 2 ? problem.n - 1 : 0};
    if (i >= 4) {
      const auto anywhere = [i](unsigned seed, int64_t size) {
        const double share =
            std::fabs(RandomValue(seed, static_cast<uint64_t>(i)));
        return std::min(
            size - 1, static_cast<int64_t>(share * static_cast<double>(size)));
      };
      at = {anywhere(101, problem.m), anywhere(102, problem.n)};
    }
    unsigned bits = 0;
    RETURN_IF_CUDA_ERROR(
        stream_->driver(),
        cuMemcpyDtoHAsync(
            &bits, d + static_cast<CUdeviceptr>(OffsetOf(layout, at)),
            static_cast<size_t>(BytesOf(element)), stream_->get()));
    RETURN_IF_ERROR(stream_->Synchronize());
    const Expected expected = Expect(problem, at);
    const double value = element == Element::kS32
                             ? static_cast<double>(static_cast<int>(bits))
                             : Decode(element, bits);
    double error = std::fabs(value - expected.value);
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    result.largest_error = std::max(result.largest_error, error);
    result.largest_error_share = std::max(
        result.largest_error_share, error == 0 ? 0 : error / expected.bound);
    ++result.sampled;
  }
  return absl::OkStatus();
}

}  // namespace gemmd::bench
