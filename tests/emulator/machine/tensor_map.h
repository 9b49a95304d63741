// A tensor map as the copy engine of the emulator reads it: the fields that
// cuTensorMapEncodeTiled was given, for three dimensions. Plain data.
#ifndef GEMMD_TESTS_EMULATOR_MACHINE_TENSOR_MAP_H_
#define GEMMD_TESTS_EMULATOR_MACHINE_TENSOR_MAP_H_

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

namespace gemmd::emulator {

struct TensorMap {
  static constexpr uint64_t kTag = 0x656d'756c'6174'6564;

  uint64_t tag = kTag;
  char* memory = nullptr;
  int64_t width = 0;  // Elements.
  int64_t lines = 0;
  int64_t matrices = 0;
  int64_t pitch_bytes = 0;
  int64_t matrix_bytes = 0;
  int element_bytes = 0;
  int box_width = 0;
  int box_lines = 0;
  int swizzle_bytes = 0;
  bool rounds_tf32 = false;

  int box_line_bytes() const { return box_width * element_bytes; }
  int box_bytes() const { return box_line_bytes() * box_lines; }
};
static_assert(sizeof(TensorMap) <= 128);

// The map in `bytes`, which are 128; none where it was never encoded.
inline std::optional<TensorMap> ReadTensorMap(const void* bytes) {
  TensorMap map;
  std::memcpy(&map, bytes, sizeof map);
  if (map.tag != TensorMap::kTag) return std::nullopt;
  return map;
}

// What the driver would refuse of it, or empty.
inline std::string FaultOf(const TensorMap& map) {
  const int inner = map.box_line_bytes();
  if (reinterpret_cast<uintptr_t>(map.memory) % 16 != 0) {
    return "the matrix does not start at a multiple of 16 bytes";
  }
  if (map.pitch_bytes % 16 != 0 || map.matrix_bytes % 16 != 0) {
    return "strides are not multiples of 16 bytes";
  }
  if (map.pitch_bytes < map.width * map.element_bytes) {
    return "lines overlap";
  }
  if (map.width <= 0 || map.lines <= 0 || map.matrices <= 0) {
    return "the matrix is empty";
  }
  if (map.box_width < 1 || map.box_width > 256 || map.box_lines < 1 ||
      map.box_lines > 256) {
    return "a side of the box is not in [1, 256]";
  }
  if (inner % 16 != 0) return "a line of the box is no multiple of 16 bytes";
  if (map.swizzle_bytes != 0 && inner > map.swizzle_bytes) {
    return "a line of the box is longer than the swizzle";
  }
  return "";
}

// The address where the swizzle of that many bytes puts what is at `address`:
// chunks of 16 bytes change places within lines of 128 bytes.
constexpr uint32_t Swizzled(uint32_t address, int swizzle_bytes) {
  if (swizzle_bytes == 0) return address;
  const auto mask = static_cast<uint32_t>(swizzle_bytes / 16 - 1);
  return address ^ ((address >> 7 & mask) << 4);
}

}  // namespace gemmd::emulator

#endif  // GEMMD_TESTS_EMULATOR_MACHINE_TENSOR_MAP_H_
