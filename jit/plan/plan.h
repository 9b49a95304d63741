// A plan: how one problem is executed. Family and config shape the generated
// source (one cubin serves every shape); the rest is launch arithmetic.
// Plain data, thread-compatible.
//
// Kernels compute P = alpha * X Y^T + beta * C with X on the instruction's m
// side and Y on its n side. A problem maps onto that in two ways: X = A, Y = B
// or, exchanged, X = B, Y = A (P is then D transposed).
#ifndef GEMMD_JIT_PLAN_PLAN_H_
#define GEMMD_JIT_PLAN_PLAN_H_

#include <cstdint>
#include <string>

#include "jit/problem/data_type.h"

namespace gemmd::jit {

// Which dimension of an operand tile is contiguous in memory.
enum class Major : uint8_t { kK, kMn };

enum class Schedule : uint8_t {
  kCooperative,  // All consumer warpgroups share one tile.
  kPingPong,     // Two consumer warpgroups alternate, each with its own tile.
};

// Which dimension of P is contiguous in D.
enum class Store : uint8_t {
  kNormal,      // Columns: D's lines run along the instruction's n.
  kTransposed,  // Rows: D's lines run along the instruction's m.
};

// How an operand lies on the device when the kernel reads it. Whatever is not
// stored is derived from what is by a preparation (templates/kernels/prepare).
enum class Form : uint8_t {
  kStored,
  kTransposed,  // The same matrix in the opposite order.
  kSplit,       // f32 as three planes of bf16: high, middle and low parts.
};

struct Family {
  DataType input = DataType::kBf16;
  DataType output = DataType::kBf16;
  Major x_major = Major::kK;
  Major y_major = Major::kK;
  Store store = Store::kNormal;
  bool reads_c = false;

  friend bool operator==(const Family&, const Family&) = default;
};

struct Config {
  int tile_m = 128;
  int tile_n = 128;
  int tile_k = 64;
  int stages = 4;
  int consumers = 2;  // Warpgroups that issue wgmma.
  Schedule schedule = Schedule::kPingPong;
  // Different CTAs sum parts of k; a second kernel of the same cubin adds the
  // partial products up.
  bool split_k = false;

  friend bool operator==(const Config&, const Config&) = default;
};

// Arguments of cuTensorMapEncodeTiled for a matrix of two dimensions.
struct TensorMapSpec {
  DataType type = DataType::kBf16;
  int64_t width = 0;  // Elements along the contiguous dimension.
  int64_t lines = 0;
  int64_t pitch_bytes = 0;
  int box_width = 0;
  int box_lines = 0;
  int swizzle_bytes = 0;  // 0, 32, 64 or 128.
};

struct Plan {
  Family family;
  Config config;
  bool exchanged = false;
  // Of the problem's A and B, whichever of X and Y they are.
  Form a_form = Form::kStored;
  Form b_form = Form::kStored;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;
  int raster_group = 1;
  int grid = 1;     // CTAs.
  int threads = 0;  // Per CTA.
  int shared_memory_bytes = 0;
  // Of a split product, d describes the workspace of partial products: f32,
  // part s on lines s * partial_lines and following. The reduction reads C and
  // writes D without tensor maps.
  TensorMapSpec x, y, c, d;  // c only when family.reads_c.
  int splits = 1;
  int partial_lines = 0;
  int reduce_grid = 0;         // CTAs of the reduction; 0 without one.
  int64_t partials_bytes = 0;  // Workspace; 0 when unused.
  double predicted_cycles = 0;
  // So short that its start should overlap the end of the grid before it
  // (programmatic dependent launch). Long ones lose 1% by it.
  bool overlaps_predecessor = false;
};

// Name of an instance: "gemm_bf16_f32_km_128x200x64_s4_pp2_t_c" is X k-major,
// Y mn-major, four stages, ping-pong with two consumers, transposed store,
// reading C.
std::string KernelName(const Family& family, const Config& config);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PLAN_PLAN_H_
