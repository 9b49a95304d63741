// Many sums at once, each as an Adder makes it. Pure functions, but for the
// choice of vectors. Thread-safe.
#ifndef GEMMD_SERVICE_HOST_HOPPER_ADD_H_
#define GEMMD_SERVICE_HOST_HOPPER_ADD_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/host/hopper/adder.h"

namespace gemmd::host {

// Columns of B that are multiplied at once.
inline constexpr int kPanel = 32;

// Elements with their exponents (adder.h), `pitch` of both from one line to
// the next. Of A, lines are rows; of B, steps of k of one panel.
struct Factors {
  const double* values = nullptr;
  const int16_t* exponents = nullptr;
  int64_t pitch = 0;
};

// Sums of rows of A and one panel of B, `pitch` from one row to the next:
// values of the accumulator's type.
struct PanelSums {
  double* values = nullptr;
  int64_t rows = 0;
  int64_t pitch = 0;
};

// `instructions` of them, one after the other, each on the next products.
// What B and sums hold is aligned to 64 bytes, a panel's lines are kPanel
// apart.
void Add(const Adder& adder, const Factors& a, const Factors& b,
         int instructions, const PanelSums& sums);

// Add with vectors of one kind.
struct Vectors {
  absl::string_view name;  // Highway's: "AVX3".
  void (*add)(const Adder& adder, const Factors& a, const Factors& b,
              int instructions, const PanelSums& sums);
};

// The kinds that this processor has, the best first, which is what Add takes.
// Never empty.
absl::Span<const Vectors> KindsOfVectors();

// Makes Add take others, in a test or a benchmark.
void UseVectors(const Vectors& vectors);

// The same, element by element and plainly: what Add is tested against.
void AddPlainly(const Adder& adder, const Factors& a, const Factors& b,
                int instructions, const PanelSums& sums);

}  // namespace gemmd::host

#endif  // GEMMD_SERVICE_HOST_HOPPER_ADD_H_
