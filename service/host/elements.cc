#include "service/host/elements.h"

#include <algorithm>
#include <cstring>

#include "jit/base/status.h"
#include "jit/problem/metadata.h"
#include "service/host/fp8.h"
#include "service/host/numbers.h"

namespace gemmd::host {
namespace {

using jit::DataType;

// Calls `convert` with each element as Stored; lines are not aligned.
template <typename Stored, typename Number, typename Convert>
void LoadAs(const char* line, int64_t first, int64_t count, Number* to,
            Convert convert) {
  const char* from = line + first * sizeof(Stored);
  for (int64_t i = 0; i < count; ++i, from += sizeof(Stored)) {
    Stored stored;
    std::memcpy(&stored, from, sizeof stored);
    to[i] = convert(stored);
  }
}

template <typename Stored, typename Convert>
void StoreAs(const float* from, int64_t count, char* line, int64_t first,
             Convert convert) {
  char* to = line + first * sizeof(Stored);
  for (int64_t i = 0; i < count; ++i, to += sizeof(Stored)) {
    const Stored stored = convert(from[i]);
    std::memcpy(to, &stored, sizeof stored);
  }
}

float Same(float value) { return value; }

template <typename Number>
void LoadF32(Reading reading, const char* line, int64_t first, int64_t count,
             Number* to) {
  switch (reading) {
    case Reading::kNearestTf32:
      return LoadAs<float>(line, first, count, to, RoundToTf32);
    case Reading::kTruncatedTf32:
      return LoadAs<float>(line, first, count, to, TruncateToTf32);
    default:
      return LoadAs<float>(line, first, count, to, Same);
  }
}

template <typename Number>
void LoadBits(Reading reading, const char* line, int64_t first, int64_t count,
              Number* to) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = first + i;
    const bool set = line[at / 8] >> (at % 8) & 1;
    to[i] = reading == Reading::kSigns ? (set ? -1 : 1) : (set ? 1 : 0);
  }
}

// Four bits each; `sign` is that of the highest.
template <typename Number>
void LoadNibbles(int sign, const char* line, int64_t first, int64_t count,
                 Number* to) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = first + i;
    const int bits = line[at / 2] >> at % 2 * 4 & 0xf;
    to[i] = static_cast<Number>((bits & 7) + sign * (bits & 8));
  }
}

// Elements become scale * (element - zero point), or that without the scale.
template <typename Number>
void Dequantize(const jit::MatrixLayout& layout, Reading reading,
                const char* line, int64_t first, int64_t count, Number* to) {
  const int64_t length = layout.quantization.group;
  for (int64_t i = 0; i < count;) {
    const GroupOf group(layout, line, first + i);
    const int64_t left = length - (first + i) % length;
    for (const int64_t end = std::min(count, i + left); i < end; ++i) {
      to[i] -= static_cast<Number>(group.zero_point);
      if (reading == Reading::kUnscaled) continue;
      to[i] *= static_cast<Number>(group.scale);
    }
  }
}

}  // namespace

GroupOf::GroupOf(const jit::MatrixLayout& layout, const char* line, int64_t k) {
  const int64_t group = k / layout.quantization.group;
  std::memcpy(&scale, line + layout.values_bytes() + 4 * group, sizeof scale);
  if (layout.quantization.zero_points) {
    zero_point =
        static_cast<signed char>(line[layout.zero_points_at() + group]);
  }
}

template <typename Number>
void Load(DataType type, Reading reading, const char* line, int64_t first,
          int64_t count, Number* to) {
  const auto number = [](auto value) { return static_cast<Number>(value); };
  switch (type) {
    case DataType::kF32:
      return LoadF32(reading, line, first, count, to);
    case DataType::kF16:
      return LoadAs<uint16_t>(line, first, count, to, FromF16);
    case DataType::kBf16:
      return LoadAs<uint16_t>(line, first, count, to, FromBf16);
    case DataType::kE4m3:
      return LoadAs<uint8_t>(line, first, count, to, FromFp8<kE4m3>);
    case DataType::kE5m2:
      return LoadAs<uint8_t>(line, first, count, to, FromFp8<kE5m2>);
    case DataType::kS8:
      return LoadAs<int8_t>(line, first, count, to, number);
    case DataType::kU8:
      return LoadAs<uint8_t>(line, first, count, to, number);
    case DataType::kS4:
      return LoadNibbles(-1, line, first, count, to);
    case DataType::kU4:
      return LoadNibbles(1, line, first, count, to);
    case DataType::kS32:
      return LoadAs<int32_t>(line, first, count, to, number);
    case DataType::kB1:
      return LoadBits(reading, line, first, count, to);
  }
}

template void Load(DataType, Reading, const char*, int64_t, int64_t, float*);
template void Load(DataType, Reading, const char*, int64_t, int64_t, double*);

template <typename Number>
void Load(const jit::MatrixLayout& layout, Reading reading, const char* line,
          int64_t first, int64_t count, Number* to) {
  if (!layout.sparse) {
    Load(layout.type, reading, line, first, count, to);
    if (layout.composite()) {
      Dequantize(layout, reading, line, first, count, to);
    }
    return;
  }
  const int chunk = jit::ChunkOf(layout.type);
  const char* const metadata = line + layout.values_bytes();
  for (int64_t at = 0; at < count; at += chunk, to += chunk) {
    Number values[2];
    Load(layout.type, reading, line, (first + at) / 2, chunk / 2, values);
    std::fill_n(to, chunk, Number{0});
    const jit::Places places = jit::PlacesOf(
        layout.type, jit::MetadataOf(metadata, (first + at) / chunk));
    to[places.first] = values[0];
    if (chunk == 4) to[places.second] = values[1];
  }
}

template void Load(const jit::MatrixLayout&, Reading, const char*, int64_t,
                   int64_t, float*);
template void Load(const jit::MatrixLayout&, Reading, const char*, int64_t,
                   int64_t, double*);

void Store(DataType type, const float* from, int64_t count, char* line,
           int64_t first) {
  switch (type) {
    case DataType::kF32:
      return StoreAs<float>(from, count, line, first, WithNanOfGpu);
    case DataType::kF16:
      return StoreAs<uint16_t>(from, count, line, first, ToF16);
    case DataType::kBf16:
      return StoreAs<uint16_t>(from, count, line, first, ToBf16);
    case DataType::kE4m3:
      return StoreAs<uint8_t>(from, count, line, first, ToFp8<kE4m3>);
    case DataType::kE5m2:
      return StoreAs<uint8_t>(from, count, line, first, ToFp8<kE5m2>);
    case DataType::kS8:
      return StoreAs<int8_t>(from, count, line, first, ToInteger<int8_t>);
    case DataType::kU8:
      return StoreAs<uint8_t>(from, count, line, first, ToInteger<uint8_t>);
    default:
      CHECK(false);
  }
}

}  // namespace gemmd::host
