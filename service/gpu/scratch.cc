#include "service/gpu/scratch.h"

#include <algorithm>
#include <set>
#include <utility>

#include "jit/base/status.h"
#include "jit/plan/form.h"
#include "jit/plan/launch_arithmetic.h"
#include "jit/problem/metadata.h"
#include "service/gpu/random_elements.h"
#include "service/gpu/status.h"

namespace gemmd::gpu {
namespace {

using Region = ScratchLayout::Region;

// Of tensor maps and vector loads, and more.
constexpr int64_t kAlignment = 512;
// Random elements that are repeated until a region is full.
constexpr int64_t kPatternBytes = 1 << 20;
// More would make launches that are prepared for each take longer than the
// products.
constexpr int64_t kMostCopies = 1024;

// `bytes` behind what there is.
Region Add(int64_t bytes, jit::DataType type, bool filled, int64_t& end) {
  if (bytes == 0) return {};
  const Region region = {end, bytes, type, filled};
  end += jit::RoundUp(bytes, kAlignment);
  return region;
}

Region Add(const jit::MatrixLayout& layout, bool filled, int64_t& end) {
  const int64_t bytes = layout.empty() ? 0 : layout.device_bytes();
  return Add(bytes, layout.type, filled, end);
}

std::vector<Region> Copied(const ScratchLayout& layout) {
  return {layout.a, layout.b, layout.c, layout.d, layout.auxiliary};
}

std::vector<Region> Shared(const ScratchLayout& layout) {
  return {layout.bias, layout.a_scale,  layout.b_scale,   layout.d_scale,
          layout.amax, layout.partials, layout.line_bits, layout.pass_flags};
}

}  // namespace

ScratchLayout ScratchLayoutOf(const jit::Problem& problem,
                              absl::Span<const device::Contender> contenders) {
  CHECK(!contenders.empty());
  const jit::Plan& first = contenders.front().plan;
  int64_t partials = 0, line_bits = 0, pass_flags = 0;
  for (const device::Contender& contender : contenders) {
    partials = std::max(partials, contender.plan.partials_bytes);
    line_bits = std::max(line_bits, contender.plan.line_bits_bytes);
    pass_flags = std::max(pass_flags, jit::PassFlagsBytes(contender.plan));
  }
  ScratchLayout all;
  int64_t& end = all.copy_bytes;
  const auto operand = [&](const jit::MatrixLayout& stored, jit::Form form) {
    const jit::MatrixLayout derived = jit::FormLayout(stored, form);
    if (form != jit::Form::kMetadata) return Add(derived, true, end);
    all.metadata = Add(derived, false, end);
    return Add(stored, true, end);
  };
  all.a = operand(problem.a(), first.a_form);
  all.b = operand(problem.b(), first.b_form);
  all.input_bytes = end;
  if (problem.reads_c()) all.c = Add(problem.c(), true, end);
  all.d = Add(problem.d(), false, end);
  if (problem.epilogue.writes_auxiliary) {
    all.auxiliary = Add(problem.d(), false, end);
  }
  int64_t& shared = all.shared_bytes;
  all.bias = Add(problem.bias(), true, shared);
  all.a_scale = Add(problem.a_scale(), true, shared);
  all.b_scale = Add(problem.b_scale(), true, shared);
  all.d_scale = Add(problem.d_scale(), true, shared);
  all.amax = Add(problem.amax(), false, shared);
  all.partials = Add(partials, jit::DataType::kF32, false, shared);
  all.line_bits = Add(line_bits, jit::DataType::kS32, false, shared);
  all.pass_flags = Add(pass_flags, jit::DataType::kS32, false, shared);
  return all;
}

int64_t ScratchLayout::CopiesBeyond(int64_t cache_bytes) const {
  // With n copies, the inputs of n - 1 others pass between two uses of one.
  return std::clamp<int64_t>(
      1 + jit::DivideUp(2 * cache_bytes, std::max<int64_t>(input_bytes, 1)), 1,
      kMostCopies);
}

absl::StatusOr<Scratch> Scratch::Create(const ScratchLayout& layout,
                                        int64_t copies, const MemoryPool& pool,
                                        PinnedPool& pinned,
                                        const std::shared_ptr<Stream>& stream) {
  ASSIGN_OR_RETURN(DeviceBuffer memory,
                   pool.Allocate(stream, layout.Bytes(copies)));
  Scratch scratch(layout, copies, std::move(memory));
  RETURN_IF_ERROR(scratch.Fill(pinned));
  RETURN_IF_ERROR(scratch.ClearFlags());
  RETURN_IF_ERROR(scratch.FillMetadata());
  return scratch;
}

LaunchMemory Scratch::operator[](int64_t copy) const {
  const CUdeviceptr start =
      memory_.get() + static_cast<CUdeviceptr>(copy * layout_.copy_bytes);
  const CUdeviceptr behind =
      memory_.get() + static_cast<CUdeviceptr>(copies_ * layout_.copy_bytes);
  const auto at = [](CUdeviceptr base, const Region& region) {
    return region.bytes == 0 ? 0
                             : base + static_cast<CUdeviceptr>(region.offset);
  };
  LaunchMemory memory;
  memory.a = at(start, layout_.a);
  memory.b = at(start, layout_.b);
  memory.metadata = at(start, layout_.metadata);
  memory.c = at(start, layout_.c);
  memory.d = at(start, layout_.d);
  memory.auxiliary = at(start, layout_.auxiliary);
  memory.bias = at(behind, layout_.bias);
  memory.a_scale = at(behind, layout_.a_scale);
  memory.b_scale = at(behind, layout_.b_scale);
  memory.d_scale = at(behind, layout_.d_scale);
  memory.amax = at(behind, layout_.amax);
  memory.partials = at(behind, layout_.partials);
  memory.line_bits = at(behind, layout_.line_bits);
  memory.pass_flags = at(behind, layout_.pass_flags);
  return memory;
}

std::vector<Scratch::Target> Scratch::TargetsOf(jit::DataType type) const {
  std::vector<Target> targets;
  const auto add = [&](const Region& region, int64_t base) {
    if (!region.filled || region.type != type) return;
    targets.push_back(
        {memory_.get() + static_cast<CUdeviceptr>(base + region.offset),
         region.bytes});
  };
  for (int64_t copy = 0; copy < copies_; ++copy) {
    for (const Region& region : Copied(layout_)) {
      add(region, copy * layout_.copy_bytes);
    }
  }
  for (const Region& region : Shared(layout_)) {
    add(region, copies_ * layout_.copy_bytes);
  }
  return targets;
}

absl::Status Scratch::Fill(PinnedPool& pinned) {
  std::set<jit::DataType> types;
  for (const std::vector<Region>& regions :
       {Copied(layout_), Shared(layout_)}) {
    for (const Region& region : regions) {
      if (region.filled) types.insert(region.type);
    }
  }
  ASSIGN_OR_RETURN(const PinnedBuffer staging, pinned.Allocate(kPatternBytes));
  for (const jit::DataType type : types) {
    RETURN_IF_ERROR(FillType(type, staging.bytes()));
  }
  return absl::OkStatus();
}

absl::Status Scratch::ClearFlags() {
  if (layout_.pass_flags.bytes == 0) return absl::OkStatus();
  const Stream& stream = memory_.stream();
  RETURN_IF_CUDA_ERROR(
      stream.driver(),
      cuMemsetD8Async((*this)[0].pass_flags, 0,
                      static_cast<size_t>(layout_.pass_flags.bytes),
                      stream.get()));
  return absl::OkStatus();
}

absl::Status Scratch::FillMetadata() {
  if (layout_.metadata.bytes == 0) return absl::OkStatus();
  const Stream& stream = memory_.stream();
  for (int64_t copy = 0; copy < copies_; ++copy) {
    RETURN_IF_CUDA_ERROR(
        stream.driver(),
        cuMemsetD8Async((*this)[copy].metadata, jit::kFirstPlaces,
                        static_cast<size_t>(layout_.metadata.bytes),
                        stream.get()));
  }
  return stream.Synchronize();
}

// The first region, which is the largest or as good, gets the pattern from the
// host, and the others what it has.
absl::Status Scratch::FillType(jit::DataType type, absl::Span<char> staging) {
  const Stream& stream = memory_.stream();
  FillRandomly(type, staging);
  const std::vector<Target> targets = TargetsOf(type);
  const Target& source = *std::ranges::max_element(targets, {}, &Target::bytes);
  const int64_t pattern = std::min(source.bytes, kPatternBytes);
  RETURN_IF_CUDA_ERROR(
      stream.driver(),
      cuMemcpyHtoDAsync(source.to, staging.data(), static_cast<size_t>(pattern),
                        stream.get()));
  for (const Target& target : targets) {
    const bool is_source = target.to == source.to;
    for (int64_t at = is_source ? pattern : 0; at < target.bytes;
         at += pattern) {
      const int64_t bytes = std::min(pattern, target.bytes - at);
      RETURN_IF_CUDA_ERROR(
          stream.driver(),
          cuMemcpyDtoDAsync(target.to + static_cast<CUdeviceptr>(at), source.to,
                            static_cast<size_t>(bytes), stream.get()));
    }
  }
  // The staging memory is filled anew, or goes back.
  return stream.Synchronize();
}

}  // namespace gemmd::gpu
