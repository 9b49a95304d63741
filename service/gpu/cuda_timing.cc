#include "service/gpu/cuda_timing.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "service/gpu/cuda_lane.h"
#include "service/gpu/download.h"
#include "service/gpu/status.h"

namespace gemmd::gpu {
namespace {

// Of the launches of one graph: twice that keeps products waiting. Events are
// exact to half a microsecond.
constexpr double kReplayMs = 0.3;
constexpr int kMaxLaunches = 500;
// Products that take longer need no replay to warm up.
constexpr double kLongMs = 1;
constexpr int kProbes = 3;
// Of D that are compared.
constexpr int64_t kComparedBytes = 64 << 20;
constexpr unsigned char kPoison = 0xff;

}  // namespace

device::TimingMemory CudaTiming::MemoryOf(
    const Device& device, const jit::Problem& problem,
    absl::Span<const device::Contender> contenders) {
  const ScratchLayout layout = ScratchLayoutOf(problem, contenders);
  return {
      .least_bytes = layout.Bytes(1),
      .enough_bytes = layout.Bytes(layout.CopiesBeyond(device.cache_bytes))};
}

absl::StatusOr<std::unique_ptr<CudaTiming>> CudaTiming::Create(
    const Device& device, const jit::Problem& problem,
    absl::Span<const device::Contender> contenders, int64_t memory_bytes) {
  const ScratchLayout layout = ScratchLayoutOf(problem, contenders);
  if (layout.Bytes(1) > memory_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("timing ", jit::DebugString(problem), " takes ",
                     layout.Bytes(1), " bytes; allowed: ", memory_bytes));
  }
  const int64_t affordable =
      (memory_bytes - layout.shared_bytes) / layout.copy_bytes;
  RETURN_IF_ERROR(device.context.MakeCurrent());
  ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream,
                   Stream::Create(&device.context));
  ASSIGN_OR_RETURN(Event begin,
                   Event::Create(&device.context, Event::Timing::kOn));
  ASSIGN_OR_RETURN(Event end,
                   Event::Create(&device.context, Event::Timing::kOn));
  ASSIGN_OR_RETURN(
      Scratch scratch,
      Scratch::Create(
          layout, std::min(affordable, layout.CopiesBeyond(device.cache_bytes)),
          device.memory, device.pinned, stream));
  return std::unique_ptr<CudaTiming>(
      new CudaTiming(device, std::move(stream), std::move(scratch),
                     std::move(begin), std::move(end), problem, contenders));
}

CudaTiming::CudaTiming(const Device& device, std::shared_ptr<Stream> stream,
                       Scratch scratch, Event begin, Event end,
                       const jit::Problem& problem,
                       absl::Span<const device::Contender> contenders)
    : context_(device.context),
      pinned_(device.pinned),
      stream_(std::move(stream)),
      scratch_(std::move(scratch)),
      begin_(std::move(begin)),
      end_(std::move(end)),
      problem_(problem),
      contenders_(contenders.begin(), contenders.end()),
      replays_(contenders.size()) {}

// Kernels are unloaded when this is gone: none may run.
CudaTiming::~CudaTiming() {
  if (context_.MakeCurrent().ok()) stream_->Synchronize().IgnoreError();
}

absl::StatusOr<double> CudaTiming::Time(
    const std::function<absl::Status()>& work) const {
  RETURN_IF_ERROR(begin_.Record(*stream_));
  RETURN_IF_ERROR(work());
  RETURN_IF_ERROR(end_.Record(*stream_));
  RETURN_IF_ERROR(stream_->Synchronize());
  return Event::Milliseconds(begin_, end_);
}

absl::StatusOr<PreparedLaunch> CudaTiming::LaunchOf(
    const device::Contender& contender, int64_t copy) const {
  return PrepareLaunch(
      context_.driver(), problem_, contender.plan,
      static_cast<const CudaKernel&>(*contender.kernel).functions(),
      scratch_[copy % scratch_.copies()]);
}

absl::StatusOr<CudaTiming::Replay> CudaTiming::Capture(
    const device::Contender& contender) const {
  ASSIGN_OR_RETURN(const PreparedLaunch first, LaunchOf(contender, 0));
  const auto run = [&] { return Enqueue(first, *stream_); };
  // The first launch loads code, which cannot be captured.
  ASSIGN_OR_RETURN(double product_ms, Time(run));
  if (product_ms < kLongMs) {
    ASSIGN_OR_RETURN(const double probe_ms, Time([&]() -> absl::Status {
                       for (int i = 0; i < kProbes; ++i) {
                         RETURN_IF_ERROR(run());
                       }
                       return absl::OkStatus();
                     }));
    product_ms = std::max(probe_ms / kProbes, 1e-3);
  }
  int launches = static_cast<int>(
      std::clamp(std::ceil(kReplayMs / product_ms), 1.0, double{kMaxLaunches}));
  // Whole rounds over the copies, so that every replay reads the same.
  const int copies = static_cast<int>(scratch_.copies());
  if (launches > copies) launches = (launches + copies - 1) / copies * copies;
  std::vector<PreparedLaunch> prepared;
  for (int i = 0; i < std::min(launches, copies); ++i) {
    ASSIGN_OR_RETURN(const PreparedLaunch launch, LaunchOf(contender, i));
    prepared.push_back(launch);
  }
  Replay replay;
  replay.launches = launches;
  replay.warms_up = launches * product_ms <= kLongMs;
  ASSIGN_OR_RETURN(
      replay.graph, Graph::Capture(*stream_, [&]() -> absl::Status {
        for (int i = 0; i < launches; ++i) {
          RETURN_IF_ERROR(Enqueue(
              prepared[static_cast<size_t>(i) % prepared.size()], *stream_));
        }
        return absl::OkStatus();
      }));
  RETURN_IF_ERROR(stream_->Synchronize());
  return replay;
}

absl::StatusOr<double> CudaTiming::Sample(size_t i) {
  RETURN_IF_ERROR(context_.MakeCurrent());
  Replay& replay = replays_[i];
  if (replay.launches == 0) {
    ASSIGN_OR_RETURN(replay, Capture(contenders_[i]));
  }
  const auto launch = [&] { return replay.graph.Launch(*stream_); };
  if (replay.warms_up) RETURN_IF_ERROR(launch());
  ASSIGN_OR_RETURN(const double ms, Time(launch));
  return 1000 * ms / replay.launches;
}

absl::StatusOr<std::string> CudaTiming::ResultOf(
    const device::Contender& contender) {
  const jit::MatrixLayout layout = problem_.d();
  const CUdeviceptr d = scratch_[0].d;
  // What is not written shows.
  RETURN_IF_CUDA_ERROR(
      context_.driver(),
      cuMemsetD8Async(d, kPoison, static_cast<size_t>(layout.device_bytes()),
                      stream_->get()));
  ASSIGN_OR_RETURN(const PreparedLaunch launch, LaunchOf(contender, 0));
  RETURN_IF_ERROR(Enqueue(launch, *stream_));
  // Without what lies between lines, where kernels may write anything.
  const int64_t compared = std::clamp(kComparedBytes / layout.pitch_bytes(),
                                      int64_t{1}, layout.lines());
  ASSIGN_OR_RETURN(
      const auto result,
      Download(*stream_, pinned_, d, device::LayoutOf(layout, {0, compared}),
               layout.width_bytes()));
  return std::string(result->bytes().data(), result->bytes().size());
}

absl::StatusOr<bool> CudaTiming::GiveSameBits(size_t i, size_t j) {
  RETURN_IF_ERROR(context_.MakeCurrent());
  ASSIGN_OR_RETURN(const std::string first, ResultOf(contenders_[i]));
  ASSIGN_OR_RETURN(const std::string second, ResultOf(contenders_[j]));
  return first == second;
}

}  // namespace gemmd::gpu
