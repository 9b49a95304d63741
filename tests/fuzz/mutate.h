// Seeded mutations of bytes: flips, cuts, repetitions, and numbers that
// parsers trip over.
#ifndef GEMMD_TESTS_FUZZ_MUTATE_H_
#define GEMMD_TESTS_FUZZ_MUTATE_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

namespace gemmd::fuzz {

inline std::string Mutate(std::string bytes, std::mt19937& random) {
  constexpr uint64_t kNumbers[] = {
      0,          1,          0x7f,       0xff,       0x7fffffff, 0x80000000,
      0xffffffff, 1ull << 32, 1ull << 62, 1ull << 63, ~0ull};
  const int rounds = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < rounds; ++i) {
    const size_t at = bytes.empty() ? 0 : random() % bytes.size();
    switch (random() % 6) {
      case 0:  // A bit.
        if (bytes.empty()) break;
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
        break;
      case 1:  // A byte.
        if (bytes.empty()) break;
        bytes[at] = static_cast<char>(random());
        break;
      case 2:  // The end is missing.
        bytes.resize(at);
        break;
      case 3:  // Something is there twice.
        bytes.insert(at, bytes.substr(at, random() % 64));
        break;
      case 4:  // Something is missing.
        bytes.erase(at, random() % 64);
        break;
      default: {  // A number, of 4 or 8 bytes.
        const uint64_t number = kNumbers[random() % std::size(kNumbers)];
        const size_t size = random() % 2 == 0 ? 4 : 8;
        if (bytes.size() < at + size) break;
        std::memcpy(bytes.data() + at, &number, size);
      }
    }
  }
  return bytes;
}

}  // namespace gemmd::fuzz

#endif  // GEMMD_TESTS_FUZZ_MUTATE_H_
