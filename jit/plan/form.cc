#include "jit/plan/form.h"

#include <algorithm>
#include <cstdint>

#include "jit/base/status.h"

namespace gemmd::jit {
namespace {

// Kernels stride over what a grid of this size leaves.
constexpr int64_t kMaxGrid = int64_t{1} << 20;

int64_t BytesOfOne(const MatrixLayout& layout) {
  return layout.matrix_lines() * layout.pitch_bytes();
}

// Of 128 bytes of k each, were it dense.
int64_t MetadataStages(const MatrixLayout& stored) {
  return PiecesOf(stored.width() * BytesOf(stored.type), kSwizzleBytes);
}

// Of one matrix.
int64_t Ctas(const PrepareArguments& arguments, const MatrixLayout& stored,
             Form form) {
  if (form == Form::kSplit) {
    const int64_t threads =
        PiecesOf(arguments.width, kSplitElements) * arguments.lines;
    return PiecesOf(threads, kPrepareThreads);
  }
  if (IsFragments(form)) {
    const Fragments fragments(stored, form);
    return (fragments.stages + fragments.groups) * fragments.blocks;
  }
  // A CTA makes the words of a stage of 64 lines.
  if (form == Form::kMetadata) {
    return MetadataStages(stored) * MetadataLines(arguments.lines);
  }
  switch (BitsOf(stored.type)) {
    case 1:
      return TransposeShape<1>::CtaTiles(arguments);
    case 8:
      return TransposeShape<8>::CtaTiles(arguments);
    default:
      return TransposeShape<32>::CtaTiles(arguments);
  }
}

}  // namespace

Fragments::Fragments(const MatrixLayout& stored, Form form)
    : along_k(form == Form::kFragments),
      k(along_k ? stored.width() : stored.matrix_lines()),
      lines(along_k ? stored.matrix_lines() : stored.width()),
      stages(PiecesOf(k, kFragmentDepth)),
      blocks(MetadataLines(lines)),
      groups(stored.groups()),
      block_bytes(FragmentLines(BitsOf(stored.type)) * kFragmentLineBytes),
      group_bytes(4 * GroupWords(stored.quantization.zero_points)) {
  if (groups == 0) return;
  // A stage brings all that it may have.
  stage_groups = std::max(1, kFragmentDepth / stored.quantization.group);
  groups = PiecesOf(groups, stage_groups) * stage_groups;
}

MatrixLayout FormLayout(const MatrixLayout& stored, Form form) {
  MatrixLayout layout = stored;
  switch (form) {
    case Form::kStored:
      break;
    case Form::kTransposed:
      CHECK(BitsOf(stored.type) != 16);
      layout.order = Opposite(stored.order);
      break;
    case Form::kSplit:
      CHECK(stored.type == DataType::kF32);
      layout.type = DataType::kBf16;
      layout.count *= kSplitPlanes;
      break;
    case Form::kFragments:
    case Form::kFragmentsAcross: {
      const Fragments fragments(stored, form);
      layout = {.type = DataType::kU8,
                .order = Order::kRowMajor,
                .rows = 1,
                .columns = fragments.groups_at() + fragments.groups_bytes(),
                .count = stored.count};
      break;
    }
    case Form::kMetadata:
      CHECK(stored.sparse);
      layout = {.type = DataType::kS32,
                .order = Order::kRowMajor,
                .rows = MetadataLines(stored.matrix_lines()),
                .columns = MetadataStages(stored) * kWarpgroupThreads *
                           MetadataWords(BitsOf(stored.type)),
                .count = stored.count};
      break;
  }
  return layout;
}

PrepareLaunch PrepareLaunchOf(const MatrixLayout& stored, Form form) {
  const MatrixLayout to = FormLayout(stored, form);
  PrepareLaunch launch;
  launch.arguments = {.from = nullptr,
                      .to = nullptr,
                      .from_pitch = stored.pitch_bytes(),
                      .to_pitch = to.pitch_bytes(),
                      .from_matrix = BytesOfOne(stored),
                      .to_matrix = BytesOfOne(to),
                      .width = stored.width(),
                      .lines = stored.matrix_lines(),
                      .matrices = stored.count};
  if (form == Form::kSplit) {
    // A plane has all matrices of a batch, one behind the other.
    launch.arguments.from_matrix = stored.device_bytes();
    launch.arguments.to_matrix = to.device_bytes() / kSplitPlanes;
    launch.arguments.lines = stored.lines();
    launch.arguments.matrices = 1;
  }
  if (form == Form::kMetadata) {
    launch.arguments.width = stored.width() / ChunkOf(stored.type);
    launch.from_offset = stored.values_bytes();
  }
  if (IsFragments(form)) {
    const Fragments fragments(stored, form);
    launch.arguments.width = fragments.k;
    launch.arguments.lines = fragments.lines;
    launch.arguments.weights = {
        .along_k = fragments.along_k,
        .groups = stored.groups(),
        .written = fragments.groups,
        .stage_groups = fragments.stage_groups,
        .scales_at = stored.values_bytes(),
        .zero_points_at =
            stored.quantization.zero_points ? stored.zero_points_at() : 0};
  }
  launch.grid = static_cast<int>(std::min<int64_t>(
      launch.arguments.matrices * Ctas(launch.arguments, stored, form),
      kMaxGrid));
  return launch;
}

}  // namespace gemmd::jit
