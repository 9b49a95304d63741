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
#include <optional>
#include <string>

#include "jit/problem/data_type.h"
#include "jit/problem/instruction.h"
#include "jit/problem/problem.h"
#include "templates/common/geometry.h"

namespace gemmd::jit {

using gemmd::Major;
using gemmd::Schedule;
using gemmd::Side;
using gemmd::Store;

// How the sum over k is kept.
enum class Summation : uint8_t {
  kDirect,       // By the tensor core, from the first product to the last.
  kPromoted,     // By the tensor core over 128 bytes of k, beyond that in f32.
  kBlockScaled,  // The same, each 128 bytes of k with scales of its own.
  // The same of quantized weights, by the scales of their groups; each half of
  // the 128 bytes apart where a group is that short.
  kGroupScaled,
};

// How an operand lies on the device when the kernel reads it. Whatever is not
// stored is derived from what is by a preparation (templates/kernels/prepare).
enum class Form : uint8_t {
  kStored,
  kTransposed,  // The same matrix in the opposite order.
  kSplit,       // f32 as three planes of bf16: high, middle and low parts.
  kMetadata,    // That of a sparse operand in the instruction's order, which
                // is read beside the stored one.
  kFragments,   // Weights in the order of the registers that they are widened
                // in, with the scales and zero points of their groups.
  kFragmentsAcross,  // The same of weights whose lines run across k.
};

constexpr bool IsFragments(Form form) {
  return form == Form::kFragments || form == Form::kFragmentsAcross;
}

// What is done to sums on their way to D, in terms of P.
struct TileEpilogue {
  DataType output = DataType::kBf16;
  Store store = Store::kNormal;
  bool alpha = false;  // False where alpha is 1.
  bool reads_c = false;
  DataType c = DataType::kBf16;  // That of `output` unless C is read.
  // Of P's rows and columns: kNone, kTensor, else a value for each.
  Extent row_scale = Extent::kNone;
  Extent column_scale = Extent::kNone;
  Side bias = Side::kNone;
  Activation activation = Activation::kNone;
  bool auxiliary = false;
  bool amax = false;
  bool scales_output = false;
  // Bits that differ are counted: from those that X and Y share and those that
  // their lines have.
  bool exclusive_or = false;

  friend bool operator==(const TileEpilogue&, const TileEpilogue&) = default;
};

// Of weights that become elements of X on their way to the tensor core, in its
// registers.
struct Widening {
  DataType from = DataType::kS4;
  int stage_groups = 0;  // Of 128 bytes of k; 0 where they have no scales.
  bool zero_points = false;

  friend bool operator==(const Widening&, const Widening&) = default;
};

struct Family {
  Instruction instruction;  // Its x is the type of X's elements.
  std::optional<Widening> widening;
  Summation sum = Summation::kDirect;
  Major x_major = Major::kK;
  Major y_major = Major::kK;
  TileEpilogue epilogue;

  friend bool operator==(const Family&, const Family&) = default;
};

struct Config {
  int tile_m = 128;
  int tile_n = 128;
  int stages = 4;
  int consumers = 2;  // Warpgroups that issue wgmma.
  Schedule schedule = Schedule::kPingPong;
  // Stages that are being multiplied while the next is awaited: 1, or 0, which
  // frees stages sooner. Promoted sums and sparse products have none.
  int groups_in_flight = 1;
  // Different CTAs sum parts of k; a second kernel of the same cubin adds the
  // partial products up. Interleaved consumers share k without it.
  bool split_k = false;
  // CTAs of a cluster that share k of a tile, and make the tile together.
  int cluster = 1;
  // CTAs of a cluster whose tiles lie below each other, and which load Y for
  // each other. None of them shares k.
  int multicast = 1;
  // One launch makes many products of the family.
  bool grouped = false;
  // The last units of a launch may be shared out to the stage, so that CTAs end
  // together (templates/common/arguments.h, Balance): no bit is another by it.
  bool balanced = false;

  friend bool operator==(const Config&, const Config&) = default;
};

constexpr int ClusterCtas(const Config& config) {
  return config.cluster * config.multicast;
}

// Whether CTAs or consumers sum parts of k, so that sums are rounded elsewhere
// than those of the family's other kernels, all of which give the same bits.
constexpr bool SharesK(const Config& config) {
  return config.split_k || config.cluster > 1 ||
         config.schedule == Schedule::kInterleaved;
}

// Arguments of cuTensorMapEncodeTiled for matrices of one layout that lie one
// behind the other: three dimensions, of which a box spans two.
struct TensorMapSpec {
  DataType type = DataType::kBf16;  // kB1 counts bytes of eight elements.
  int64_t width = 0;                // Elements along the contiguous dimension.
  int64_t lines = 0;
  int64_t pitch_bytes = 0;
  int64_t matrices = 1;
  int64_t matrix_bytes = 0;  // From one to the next.
  int box_width = 0;
  int box_lines = 0;
  int swizzle_bytes = 0;     // 0, 32, 64 or 128.
  bool rounds_tf32 = false;  // f32 elements are rounded to nearest tf32.
};

struct Plan {
  Family family;
  Config config;
  bool exchanged = false;
  // Of the problem's A and B, whichever of X and Y they are. Of a sparse one
  // kMetadata, beside what is stored.
  Form a_form = Form::kStored;
  Form b_form = Form::kStored;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;  // 0 for an empty product: only the reduction runs.
  int64_t batch = 1;
  int raster_group = 1;
  int turn = 0;     // See Arguments.
  int grid = 1;     // CTAs; 0 for an empty product.
  int threads = 0;  // Per CTA.
  int shared_memory_bytes = 0;
  int stages = 0;  // Of 128 bytes of k each, in one pass.
  // Of a stage, in lines of tiles that matrices do not have: see Arguments.
  int absent_bytes = 0;
  // Passes over k and the planes of X and Y that each multiplies, two bits a
  // pass (see templates/common/arguments.h).
  int passes = 1;
  uint32_t x_planes = 0;
  uint32_t y_planes = 0;
  // Of a split product, d describes the workspace of partial products, f32 or
  // s32: matrices p * splits + s. The reduction reads C and writes D without
  // tensor maps.
  TensorMapSpec x, y, c, d;   // c only when StagesC(family, config).
  TensorMapSpec metadata;     // Of a sparse X, or the groups of weights.
  int64_t groups_at = 0;      // Bytes from the fragments of weights to them;
                              // 0 where there are none.
  int weight_blocks = 0;      // Of 64 lines.
  int group_stage_shift = 0;  // Of stages that share a group, their log2.
  // Parts of k, of CTAs (split_k), of the CTAs of a cluster or of interleaved
  // consumers, that are summed up apart and added in order; 0 for an empty
  // product.
  int splits = 1;
  int balanced_units = 0;  // That are shared out; 0 without a balanced config.
  int reduce_grid = 0;     // CTAs of the reduction; 0 without one.
  int reduce_lane_bits = 0;  // 2^bits of its lanes make the same elements.
  // Workspace, of a split product or of sums that are passed on; 0 when unused.
  int64_t partials_bytes = 0;
  // Of a family that counts bits: the CTAs that do, and workspace for an s32
  // of every line of X, then of Y.
  int line_bits_grid = 0;
  int64_t line_bits_bytes = 0;
  double predicted_cycles = 0;  // By the cost model alone, without launches.
  double predicted_us = 0;  // With its correction: what plans are ranked by.
  // So short that it should overlap the grids before it and behind it
  // (programmatic dependent launch) wherever its CTAs lie then.
  bool brief = false;
};

// Name of an instance: "gemm_bf16_f32_km_128x200_s4_pp2_t_c" is X k-major,
// Y mn-major, four stages, ping-pong with two consumers, transposed store,
// reading C.
std::string KernelName(const Family& family, const Config& config);

}  // namespace gemmd::jit

#endif  // GEMMD_JIT_PLAN_PLAN_H_
