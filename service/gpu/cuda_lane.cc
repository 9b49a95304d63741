#include "service/gpu/cuda_lane.h"

#include <utility>
#include <vector>

#include "service/gpu/device_copy.h"
#include "service/gpu/device_image.h"
#include "service/gpu/direct_copy.h"
#include "service/gpu/download.h"
#include "service/gpu/launch.h"
#include "service/gpu/status.h"

namespace gemmd::gpu {

namespace {

CUdeviceptr OffsetOf(const device::Matrix& matrix,
                     const device::LineRange& range) {
  return static_cast<CUdeviceptr>(range.first * matrix.layout().pitch_bytes() +
                                  range.first_byte);
}

// Its lines have no padding or slack on the device, which would be zero.
bool IsWhole(const jit::MatrixLayout& layout) {
  return layout.pitch_bytes() == layout.width_bytes() &&
         layout.last_byte_bits() == 8;
}

CUdeviceptr AddressOf(const char* bytes) {
  return reinterpret_cast<CUdeviceptr>(bytes);
}

// Of kernels that are ordered: a quarter of a millisecond. Those of 4096^3,
// which take 170 us, lose 4% by it, as none begins in the other's last round
// (H100).
constexpr double kLongCycles = 425e3;

// Of what kernels and tensor maps read and write.
constexpr CUdeviceptr kAlignment = 16;

}  // namespace

CudaLane::CudaLane(std::shared_ptr<Stream> stream, Event end,
                   const MemoryPool* memory, LaunchOrder* order,
                   std::shared_ptr<PinnedPool> pinned, StagingRing ring)
    : stream_(std::move(stream)),
      end_(std::make_shared<Event>(std::move(end))),
      memory_(memory),
      order_(order),
      pinned_(std::move(pinned)),
      ring_(std::move(ring)) {}

absl::StatusOr<std::unique_ptr<CudaLane>> CudaLane::Create(
    const Context* context, const MemoryPool* memory, LaunchOrder* order,
    std::shared_ptr<PinnedPool> pinned, StagingRing::Options staging) {
  ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, Stream::Create(context));
  ASSIGN_OR_RETURN(Event end, Event::Create(context, Event::Timing::kOff));
  ASSIGN_OR_RETURN(StagingRing ring,
                   StagingRing::Create(context, *pinned, staging));
  return std::unique_ptr<CudaLane>(
      new CudaLane(std::move(stream), std::move(end), memory, order,
                   std::move(pinned), std::move(ring)));
}

// Staging memory goes back to the pool: no copy may still read it. An error
// means a lost device, which reads nothing any more.
CudaLane::~CudaLane() { stream_->Synchronize().IgnoreError(); }

absl::StatusOr<std::unique_ptr<device::Matrix>> CudaLane::Allocate(
    const jit::MatrixLayout& layout) {
  ASSIGN_OR_RETURN(DeviceBuffer buffer,
                   memory_->Allocate(stream_, layout.device_bytes()));
  return std::make_unique<CudaMatrix>(layout, std::move(buffer));
}

CUdeviceptr CudaLane::Use(const device::Matrix* matrix) const {
  if (matrix == nullptr) return 0;
  // Every matrix given to a lane was made by its device.
  const CudaMatrix& cuda = static_cast<const CudaMatrix&>(*matrix);
  cuda.UsedOn(stream_);
  return cuda.pointer();
}

absl::Status CudaLane::ClearLines(device::Matrix& matrix,
                                  device::LineRange lines) {
  RETURN_IF_ERROR(stream_->context().MakeCurrent());
  RETURN_IF_CUDA_ERROR(
      driver(),
      cuMemsetD8Async(
          Use(&matrix) + OffsetOf(matrix, lines), 0,
          static_cast<size_t>(lines.count * matrix.layout().pitch_bytes()),
          stream_->get()));
  return absl::OkStatus();
}

// Kernels read and write whole words of 16 bytes. Where lines have no padding,
// those are all elements of the matrix: nobody else's.
std::unique_ptr<device::Matrix> CudaLane::Borrow(
    const device::RegionPlace& place, const jit::MatrixLayout& layout,
    int64_t pitch_bytes) {
  if (!device::IsOnDevice(place.region.get()) || !IsWhole(layout) ||
      (layout.lines() > 1 && pitch_bytes != layout.pitch_bytes()) ||
      AddressOf(place.bytes()) % kAlignment != 0) {
    return nullptr;
  }
  regions_.push_back(place.region);
  return std::make_unique<CudaMatrix>(layout, AddressOf(place.bytes()));
}

absl::Status CudaLane::CopyFromPeer(const device::Matrix& from,
                                    device::Matrix& to) {
  RETURN_IF_ERROR(stream_->context().MakeCurrent());
  const auto& source = static_cast<const CudaMatrix&>(from);
  const CUdeviceptr pointer = Use(&to);
  const CUresult result = driver().cuMemcpyPeerAsync(
      pointer, stream_->context().get(), source.pointer(),
      source.context().get(), static_cast<size_t>(from.layout().device_bytes()),
      stream_->get());
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  // What is sticky here is so for every other call, which says it.
  const absl::Status status = ToStatus(driver(), result, "cuMemcpyPeerAsync");
  return absl::UnavailableError(status.message());
}

absl::Status CudaLane::CopyFromRegion(const device::HostMatrix& from,
                                      const jit::MatrixLayout& layout,
                                      CUdeviceptr to, const Stream& stream) {
  regions_.push_back(from.region);
  if (!IsWhole(layout)) {  // Padding is zero.
    RETURN_IF_CUDA_ERROR(
        driver(),
        cuMemsetD8Async(to, 0, static_cast<size_t>(layout.device_bytes()),
                        stream.get()));
  }
  return CopyWithin(
      stream,
      {.at = AddressOf(from.pieces[0].data()), .pitch_bytes = from.pitch_bytes},
      {.at = to, .pitch_bytes = layout.pitch_bytes()}, layout.width_bytes(),
      layout.lines());
}

absl::Status CudaLane::Upload(const device::HostMatrix& from,
                              device::LineRange lines, device::Matrix& to) {
  RETURN_IF_ERROR(stream_->context().MakeCurrent());
  return EnqueueUpload(from, lines, to, *stream_);
}

absl::Status CudaLane::EnqueueUpload(const device::HostMatrix& from,
                                     device::LineRange lines,
                                     device::Matrix& to, const Stream& stream) {
  const jit::MatrixLayout layout = device::LayoutOf(to.layout(), lines);
  const CUdeviceptr pointer = Use(&to) + OffsetOf(to, lines);
  if (device::IsOnDevice(from.region.get())) {
    return CopyFromRegion(from, layout, pointer, stream);
  }
  if (from.region != nullptr && from.region->pinned() && IsWhole(layout)) {
    regions_.push_back(from.region);
    return CopyToDevice(
        stream,
        {.bytes = from.pieces[0].data(), .pitch_bytes = from.pitch_bytes},
        layout, pointer);
  }
  ASSIGN_OR_RETURN(DeviceImage image, DeviceImage::Create(from, layout));
  return ring_.Upload(image, pointer, stream);
}

absl::StatusOr<std::unique_ptr<device::HostBuffer>> CudaLane::Download(
    const device::Matrix& from, device::LineRange lines, int64_t pitch_bytes) {
  return gpu::Download(*stream_, *pinned_, Use(&from) + OffsetOf(from, lines),
                       device::LayoutOf(from.layout(), lines), pitch_bytes);
}

absl::Status CudaLane::DownloadTo(const device::RegionPlace& to,
                                  const device::Matrix& from,
                                  device::LineRange lines,
                                  int64_t pitch_bytes) {
  RETURN_IF_ERROR(stream_->context().MakeCurrent());
  const absl::Status enqueued =
      EnqueueDownload(to, from, lines, pitch_bytes, *stream_);
  // Before any return: nothing may be written after it.
  const absl::Status done = Synchronize();
  return enqueued.ok() ? done : enqueued;
}

absl::Status CudaLane::EnqueueDownload(const device::RegionPlace& to,
                                       const device::Matrix& from,
                                       device::LineRange lines,
                                       int64_t pitch_bytes,
                                       const Stream& stream) {
  const jit::MatrixLayout layout = device::LayoutOf(from.layout(), lines);
  const CUdeviceptr pointer = Use(&from) + OffsetOf(from, lines);
  if (device::IsOnDevice(to.region.get())) {
    return CopyWithin(
        stream, {.at = pointer, .pitch_bytes = from.layout().pitch_bytes()},
        {.at = AddressOf(to.bytes()), .pitch_bytes = pitch_bytes},
        layout.width_bytes(), layout.lines());
  }
  if (to.region->pinned()) {
    return CopyToHost(stream, pointer, layout,
                      {.bytes = to.bytes(), .pitch_bytes = pitch_bytes});
  }
  return Lane::DownloadTo(to, from, lines, pitch_bytes);
}

absl::Status CudaLane::Prepare(jit::Form form, const device::Kernel& kernel,
                               const device::Matrix& from, device::Matrix& to) {
  RETURN_IF_ERROR(stream_->context().MakeCurrent());
  jit::PrepareLaunch launch = jit::PrepareLaunchOf(from.layout(), form);
  launch.arguments.from = reinterpret_cast<const void*>(
      Use(&from) + static_cast<CUdeviceptr>(launch.from_offset));
  launch.arguments.to = reinterpret_cast<void*>(Use(&to));
  return EnqueuePrepare(
      launch, static_cast<const CudaKernel&>(kernel).functions().multiply,
      *stream_);
}

absl::StatusOr<PreparedLaunch> CudaLane::Prepare(
    const jit::Problem& problem, const jit::Plan& plan,
    const device::Kernel& kernel, const device::Operands& operands) {
  RETURN_IF_ERROR(workspace_.Reserve(plan, *memory_, stream_));
  LaunchMemory memory;
  workspace_.AddTo(memory);
  memory.a = Use(operands.a);
  memory.b = Use(operands.b);
  memory.metadata = Use(operands.metadata);
  memory.c = Use(operands.c);
  memory.d = Use(operands.d);
  memory.bias = Use(operands.bias);
  memory.a_scale = Use(operands.a_scale);
  memory.b_scale = Use(operands.b_scale);
  memory.d_scale = Use(operands.d_scale);
  memory.auxiliary = Use(operands.auxiliary);
  memory.amax = Use(operands.amax);
  if (operands.amax != nullptr) RETURN_IF_ERROR(Clear(*operands.amax));
  return PrepareLaunch(driver(), maps_, problem, plan,
                       static_cast<const CudaKernel&>(kernel).functions(),
                       memory);
}

absl::Status CudaLane::Multiply(const jit::Problem& problem,
                                const jit::Plan& plan,
                                const device::Kernel& kernel,
                                const device::Operands& operands) {
  RETURN_IF_ERROR(stream_->context().MakeCurrent());
  ASSIGN_OR_RETURN(const PreparedLaunch launch,
                   Prepare(problem, plan, kernel, operands));
  return Enqueue(plan.predicted_cycles,
                 [&] { return gpu::Enqueue(launch, *stream_); });
}

absl::Status CudaLane::Enqueue(double cycles,
                               absl::FunctionRef<absl::Status()> launch) {
  return cycles < kLongCycles ? launch()
                              : order_->InTurn(*stream_, end_, launch);
}

absl::Status CudaLane::MultiplyGroup(
    absl::Span<const device::GroupMember> members,
    const device::Kernel& kernel) {
  RETURN_IF_ERROR(stream_->context().MakeCurrent());
  std::vector<PreparedLaunch> launches;
  double cycles = 0;
  for (const device::GroupMember& member : members) {
    cycles += member.plan->predicted_cycles;
    ASSIGN_OR_RETURN(
        launches.emplace_back(),
        Prepare(*member.problem, *member.plan, kernel, member.operands));
  }
  PreparedGroup group = gpu::Group(launches);
  const absl::Span<const char> pieces[] = {
      {reinterpret_cast<const char*>(group.products.data()),
       group.products.size() * sizeof(Arguments)}};
  const auto bytes = static_cast<int64_t>(pieces[0].size());
  const jit::MatrixLayout layout = {
      .type = jit::DataType::kU8, .rows = 1, .columns = bytes};
  if (layout.device_bytes() > products_.bytes()) {
    ASSIGN_OR_RETURN(products_,
                     memory_->Allocate(stream_, layout.device_bytes()));
  }
  ASSIGN_OR_RETURN(
      DeviceImage image,
      DeviceImage::Create({.pieces = pieces, .pitch_bytes = bytes}, layout));
  RETURN_IF_ERROR(ring_.Upload(image, products_.get(), *stream_));
  return Enqueue(cycles, [&] {
    return EnqueueGroup(std::move(group), products_.get(), *stream_);
  });
}

absl::Status CudaLane::EnqueueBand(const device::Band& band,
                                   const device::Kernel& kernel,
                                   BandPipeline& pipeline) {
  const auto up = [&](const Stream& stream) -> absl::Status {
    for (const auto& [from, to] : band.inputs) {
      const device::LineRange all = {0, to->layout().lines()};
      RETURN_IF_ERROR(EnqueueUpload(from, all, *to, stream));
    }
    return absl::OkStatus();
  };
  const auto multiply = [&](const Stream& stream) -> absl::Status {
    for (const auto& [form, derive, from, to] : band.derivations) {
      RETURN_IF_ERROR(Prepare(form, *derive, *from, *to));
    }
    const auto& [problem, plan, operands] = band.product;
    ASSIGN_OR_RETURN(const PreparedLaunch launch,
                     Prepare(*problem, *plan, kernel, operands));
    return gpu::Enqueue(launch, stream);
  };
  const auto down = [&](const Stream& stream) -> absl::Status {
    for (const auto& [from, to, pitch_bytes] : band.results) {
      const device::LineRange all = {0, from->layout().lines()};
      RETURN_IF_ERROR(EnqueueDownload(to, *from, all, pitch_bytes, stream));
    }
    return absl::OkStatus();
  };
  return pipeline.Enqueue(up, multiply, down);
}

absl::StatusOr<device::BandTimes> CudaLane::MultiplyInBands(
    absl::Span<const device::Band> bands, const device::Kernel& kernel) {
  RETURN_IF_ERROR(stream_->context().MakeCurrent());
  if (band_streams_ == nullptr) {
    ASSIGN_OR_RETURN(band_streams_, BandStreams::Create(&stream_->context()));
  }
  // Matrices were allocated on the lane's stream, and what bands share may be
  // on its way there.
  absl::StatusOr<BandPipeline> pipeline =
      BandPipeline::Begin(*stream_, *band_streams_);
  absl::Status enqueued = pipeline.status();
  for (const device::Band& band : bands) {
    if (!enqueued.ok()) break;
    enqueued = EnqueueBand(band, kernel, *pipeline);
  }
  // Before any return: nothing may be read or written after it.
  const absl::Status moved = band_streams_->Synchronize();
  const absl::Status done = Synchronize();
  RETURN_IF_ERROR(enqueued);
  RETURN_IF_ERROR(moved);
  RETURN_IF_ERROR(done);
  return pipeline->Times();
}

absl::Status CudaLane::Synchronize() {
  const absl::Status done = stream_->Synchronize();
  regions_.clear();
  return done;
}

}  // namespace gemmd::gpu
