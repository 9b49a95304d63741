// The vectors of vectors.txt.
#ifndef GEMMD_TESTS_SERVICE_HOST_HOPPER_VECTORS_H_
#define GEMMD_TESTS_SERVICE_HOST_HOPPER_VECTORS_H_

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace gemmd::host {

struct Vector {
  std::string arithmetic;  // Its name.
  std::string a, b;        // A row and a column, as they lie in memory.
  uint32_t sum = 0;        // Bits of it as f32.
};

inline std::vector<Vector> ReadVectors(const std::string& path) {
  std::vector<Vector> vectors;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    Vector vector = {words.at(0), absl::HexStringToBytes(words.at(1)),
                     absl::HexStringToBytes(words.at(2))};
    if (absl::SimpleHexAtoi(words.at(3), &vector.sum)) {
      vectors.push_back(vector);
    }
  }
  return vectors;
}

}  // namespace gemmd::host

#endif  // GEMMD_TESTS_SERVICE_HOST_HOPPER_VECTORS_H_
