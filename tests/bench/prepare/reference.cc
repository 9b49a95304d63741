#include "tests/bench/prepare/reference.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>

#include "jit/plan/form.h"
#include "service/host/numbers.h"

namespace gemmd::bench {
namespace {

std::string Transposed(const jit::MatrixLayout& stored,
                       const std::string& from) {
  const jit::MatrixLayout layout =
      jit::FormLayout(stored, jit::Form::kTransposed);
  const int64_t from_pitch = stored.width_bytes();
  const int64_t pitch = layout.width_bytes();
  const int bytes = jit::BitsOf(stored.type) / 8;
  std::string to(static_cast<size_t>(layout.lines() * pitch), '\0');
  for (int64_t line = 0; line < stored.lines(); ++line) {
    for (int64_t i = 0; i < stored.width(); ++i) {
      if (bytes > 0) {
        std::memcpy(&to[static_cast<size_t>(i * pitch + line * bytes)],
                    &from[static_cast<size_t>(line * from_pitch + i * bytes)],
                    static_cast<size_t>(bytes));
      } else if (from[static_cast<size_t>(line * from_pitch + i / 8)] >> i % 8 &
                 1) {
        to[static_cast<size_t>(i * pitch + line / 8)] |=
            static_cast<char>(1 << line % 8);
      }
    }
  }
  return to;
}

// As the device converts: a NaN has all bits but its sign.
uint16_t Round(float value) {
  return std::isnan(value) ? 0x7fff : host::ToBf16(value);
}

std::string Split(const jit::MatrixLayout& stored, const std::string& from) {
  const size_t elements = static_cast<size_t>(stored.lines() * stored.width());
  std::string to(kSplitPlanes * elements * 2, '\0');
  for (size_t i = 0; i < elements; ++i) {
    float left;
    std::memcpy(&left, &from[4 * i], 4);
    for (size_t plane = 0; plane < kSplitPlanes; ++plane) {
      uint16_t part = Round(left);
      if (std::isinf(host::FromBf16(part)) && std::isfinite(left)) {
        part = static_cast<uint16_t>(std::bit_cast<uint32_t>(left) >> 16);
      }
      std::memcpy(&to[2 * (plane * elements + i)], &part, 2);
      left = std::isfinite(left) ? left - host::FromBf16(part) : 0;
    }
  }
  return to;
}

}  // namespace

std::string Reference(const jit::MatrixLayout& stored, jit::Form form,
                      const std::string& bytes) {
  return form == jit::Form::kSplit ? Split(stored, bytes)
                                   : Transposed(stored, bytes);
}

std::string RandomOperand(const jit::MatrixLayout& stored, jit::Form form) {
  // Half of all f32 that a split meets are ordinary.
  std::mt19937 random(20261121);
  std::string bytes(static_cast<size_t>(stored.lines() * stored.width_bytes()),
                    '\0');
  for (size_t i = 0; i < bytes.size(); i += 4) {
    uint32_t word = static_cast<uint32_t>(random());
    if (form == jit::Form::kSplit && i % 8 == 0) {
      word = (word & 0x80ffffff) | 0x3f000000;
    }
    std::memcpy(&bytes[i], &word, std::min<size_t>(4, bytes.size() - i));
  }
  return bytes;
}

}  // namespace gemmd::bench
