// The ways in which bytes are moved, and what is said about them.
#ifndef GEMMD_TESTS_BENCH_WIRE_WAY_H_
#define GEMMD_TESTS_BENCH_WIRE_WAY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "gemmd/v1/types.pb.h"

namespace gemmd::wire {

enum class Way {
  kUpload,    // Of a tensor.
  kDownload,  // Of one.
  kStream,    // A product whose operands and result go in chunks.
  kInline,    // The same product in one message, and its result in another.
};

const char* NameOf(Way way);
// INVALID_ARGUMENT says what is allowed.
absl::StatusOr<Way> ParseWay(const std::string& name);

// Of what goes in chunks, each way.
inline constexpr int64_t kChunkBytes = 2 << 20;

// What is moved.
struct Load {
  int64_t tensor_bytes = 0;
  std::string line;  // Of the product.
  v1::Problem problem;
  int64_t a_bytes = 0;
  int64_t b_bytes = 0;
  int64_t d_bytes = 0;
  std::string device;  // "": the daemon's choice.

  // Of one call: matrices alone, not what is beside them.
  int64_t sent_bytes(Way way) const;
  int64_t returned_bytes(Way way) const;
};

// INVALID_ARGUMENT where the product has more than A, B and D, or the tensor is
// no number of its lines.
absl::StatusOr<Load> MakeLoad(int64_t tensor_bytes, const std::string& line,
                              const std::string& device);

// Of a tensor: lines of so many bytes.
inline constexpr int64_t kLineBytes = 8 << 10;

}  // namespace gemmd::wire

#endif  // GEMMD_TESTS_BENCH_WIRE_WAY_H_
