#include "service/engine/tensor_tasks.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "jit/base/status.h"
#include "jit/problem/metadata.h"
#include "service/engine/cost.h"
#include "service/engine/metadata.h"

namespace gemmd::engine {
namespace {

// Cleared in one turn: some tens of microseconds on a GPU, of milliseconds on
// the host.
constexpr int64_t kClearBytes = 64 << 20;

// Written to a region in one turn: a millisecond on a GPU.
constexpr int64_t kRegionBytes = 64 << 20;

// Lines of a sparse matrix that are sent at once, in pieces of so many bytes.
constexpr int64_t kSparseLines = 1 << 14;
constexpr int64_t kPieceBytes = 1 << 14;

// As many pieces of `block` as have `bytes`.
void Repeat(absl::Span<const char> block, int64_t bytes,
            std::vector<absl::Span<const char>>& pieces) {
  for (; bytes > 0; bytes -= std::ssize(pieces.back())) {
    pieces.push_back(block.subspan(0, bytes));
  }
}

// Lines without a value that is not zero.
absl::Status ClearSparse(device::Lane& lane, device::Matrix& matrix,
                         device::LineRange lines) {
  const jit::MatrixLayout& layout = matrix.layout();
  const std::vector<char> zeros(kPieceBytes, '\0');
  const std::vector<char> metadata(kPieceBytes, jit::kFirstPlaces);
  std::vector<absl::Span<const char>> pieces;
  for (int64_t i = 0; i < lines.count; ++i) {
    Repeat(zeros, layout.values_bytes(), pieces);
    Repeat(metadata, layout.metadata_bytes(), pieces);
  }
  return lane.Upload({pieces, layout.width_bytes()}, lines, matrix);
}

absl::Status Gone() {
  return absl::NotFoundError(
      "the tensor was deleted, or expired, while it was uploaded");
}

absl::Status Overtaken() {
  return absl::AbortedError(
      "another upload of the tensor was complete first: it stands, this one is "
      "dropped");
}

}  // namespace

CreateTask::CreateTask(ServedDevice& served, TensorStore& store,
                       const jit::MatrixLayout& layout,
                       Tensor::Identity identity, QuotaHold quota,
                       RequestContext context,
                       Done<std::shared_ptr<Tensor>> done)
    : LaneTask(std::move(context), served.health),
      served_(served),
      store_(store),
      layout_(layout),
      identity_(std::move(identity)),
      contents_{std::move(quota), nullptr},
      done_(std::move(done)) {
  set_cost(ClearCost(std::min(layout.device_bytes(), kClearBytes)));
}

absl::StatusOr<bool> CreateTask::ClearSome(device::Lane& lane) {
  if (contents_.matrix == nullptr) {
    ASSIGN_OR_RETURN(contents_.matrix, lane.Allocate(layout_));
  }
  int64_t at_once = std::max<int64_t>(1, kClearBytes / layout_.pitch_bytes());
  if (layout_.sparse) at_once = std::min(at_once, kSparseLines);
  const device::LineRange lines = {
      cleared_lines_, std::min(at_once, layout_.lines() - cleared_lines_)};
  RETURN_IF_ERROR(layout_.sparse ? ClearSparse(lane, *contents_.matrix, lines)
                                 : lane.ClearLines(*contents_.matrix, lines));
  RETURN_IF_ERROR(lane.Synchronize());
  cleared_lines_ += lines.count;
  return cleared_lines_ < layout_.lines();
}

bool CreateTask::Run(device::Lane& lane) {
  const absl::StatusOr<bool> more = ClearSome(lane);
  if (!more.ok()) {
    done_.Answer(served_.Note(more.status()));
    return false;
  }
  if (*more) return true;
  auto tensor =
      std::make_shared<Tensor>(std::move(identity_), std::move(contents_));
  if (absl::Status status = store_.Insert(tensor); !status.ok()) {
    done_.Answer(status);
  } else {
    done_.Answer(std::move(tensor));
  }
  return false;
}

UploadTask::UploadTask(ServedDevice& served,
                       std::shared_ptr<TensorUpload> upload,
                       device::HostMatrix from, device::LineRange lines,
                       RequestContext context, Done<std::monostate> done)
    : LaneTask(std::move(context), served.health),
      served_(served),
      upload_(std::move(upload)),
      tensor_(upload_->tensor.lock()),
      from_(from),
      lines_(lines),
      done_(std::move(done)) {
  set_cost(UploadCost(device::LayoutOf(upload_->layout, lines).device_bytes()));
}

void UploadTask::Start() {
  if (tensor_ == nullptr) return GiveUp(Gone());
  served_.transfers->Submit(
      std::static_pointer_cast<UploadTask>(shared_from_this()));
}

absl::Status UploadTask::Send(device::Lane& lane) {
  RETURN_IF_ERROR(CheckMetadata(upload_->name, upload_->layout, from_, lines_));
  ASSIGN_OR_RETURN(device::Matrix * matrix, Allocated(lane));
  RETURN_IF_ERROR(lane.Upload(from_, lines_, *matrix));
  return lane.Synchronize();
}

absl::StatusOr<device::Matrix*> UploadTask::Allocated(device::Lane& lane) {
  std::lock_guard lock(upload_->allocation);
  // Alive as long as the tensor, which this task keeps.
  std::unique_ptr<device::Matrix>& matrix = upload_->contents.lock()->matrix;
  if (matrix == nullptr) {
    ASSIGN_OR_RETURN(std::unique_ptr<device::Matrix> allocated,
                     lane.Allocate(upload_->layout));
    // Memory comes in the order of the lane: others may not use it before.
    RETURN_IF_ERROR(lane.Synchronize());
    matrix = std::move(allocated);
  }
  return matrix.get();
}

bool UploadTask::Run(device::Lane& lane) {
  const absl::Status sent = served_.Note(Send(lane));
  tensor_->Touch();
  // Who has the answer may count on all being given back.
  tensor_.reset();
  upload_.reset();
  if (sent.ok()) {
    done_.Answer(std::monostate());
  } else {
    done_.Answer(sent);
  }
  return false;
}

FinishUploadTask::FinishUploadTask(ServedDevice& served,
                                   std::shared_ptr<TensorUpload> upload,
                                   RequestContext context,
                                   Done<std::monostate> done)
    : LaneTask(std::move(context), served.health),
      served_(served),
      upload_(std::move(upload)),
      tensor_(upload_->tensor.lock()),
      done_(std::move(done)),
      locks_(served.locks) {}

void FinishUploadTask::Start() {
  if (tensor_ == nullptr) return GiveUp(Gone());
  if (tensor_->uploads() != upload_->uploads) return GiveUp(Overtaken());
  const absl::Status admitted =
      served_.transfers->Admit(*this, Places::Entry::kAlways);
  if (!admitted.ok()) return GiveUp(admitted);
  auto self = std::static_pointer_cast<FinishUploadTask>(shared_from_this());
  const bool held = locks_.Acquire(
      {}, {tensor_}, [self] { self->served_.transfers->Enqueue(self); });
  if (held && Begin()) Swap();
}

bool FinishUploadTask::Run(device::Lane&) {
  Swap();
  return false;
}

void FinishUploadTask::Swap() {
  Tensor& tensor = *tensor_;
  absl::Status status;
  std::optional<Tensor::Contents> old;
  if (tensor.uploads() != upload_->uploads) {
    status = Overtaken();
  } else {
    TensorLocks::NoteWrite(tensor);
    old = TensorLocks::Replace(tensor, std::move(*upload_->contents.lock()));
  }
  locks_.Release();
  // After the lock, and before the answer.
  old.reset();
  tensor_.reset();
  upload_.reset();
  if (status.ok()) {
    done_.Answer(std::monostate());
  } else {
    done_.Answer(status);
  }
}

void FinishUploadTask::Refuse(const absl::Status& why) {
  locks_.Release();
  done_.Answer(why);
}

DownloadTask::DownloadTask(ServedDevice& served, std::shared_ptr<Tensor> tensor,
                           device::LineRange lines, int64_t pitch_bytes,
                           device::RegionPlace to, RequestContext context,
                           Done<TensorPart> done)
    : LaneTask(std::move(context), served.health),
      served_(served),
      tensor_(std::move(tensor)),
      lines_(lines),
      pitch_bytes_(pitch_bytes),
      to_(std::move(to)),
      done_(std::move(done)),
      locks_(served.locks) {
  set_cost(DownloadCost(lines.count * pitch_bytes));
}

void DownloadTask::Start() {
  const absl::Status admitted = served_.transfers->Admit(*this);
  if (!admitted.ok()) return GiveUp(admitted);
  auto self = std::static_pointer_cast<DownloadTask>(shared_from_this());
  const bool held = locks_.Acquire(
      {tensor_}, {}, [self] { self->served_.transfers->Enqueue(self); });
  if (held) served_.transfers->Enqueue(std::move(self));
}

absl::StatusOr<bool> DownloadTask::WriteSome(device::Lane& lane) {
  const int64_t at_once = std::max<int64_t>(1, kRegionBytes / pitch_bytes_);
  const device::LineRange lines = {lines_.first + written_,
                                   std::min(at_once, lines_.count - written_)};
  const device::RegionPlace to = {to_.region,
                                  to_.offset + written_ * pitch_bytes_};
  const absl::Status written =
      lane.DownloadTo(to, TensorLocks::matrix(*tensor_), lines, pitch_bytes_);
  // After an error, too, nothing is written once the answer is there.
  if (!written.ok()) lane.Synchronize().IgnoreError();
  RETURN_IF_ERROR(written);
  written_ += lines.count;
  return written_ < lines_.count;
}

bool DownloadTask::Run(device::Lane& lane) {
  TensorPart part;
  absl::Status status;
  if (to_.region != nullptr) {
    const absl::StatusOr<bool> more = WriteSome(lane);
    if (more.ok() && *more) return true;
    status = more.status();
  } else {
    auto bytes =
        lane.Download(TensorLocks::matrix(*tensor_), lines_, pitch_bytes_);
    status = bytes.status();
    if (bytes.ok()) part.bytes = *std::move(bytes);
  }
  part.version = TensorLocks::version(*tensor_);
  locks_.Release();
  tensor_.reset();
  if (!status.ok()) {
    done_.Answer(served_.Note(status));
  } else {
    done_.Answer(std::move(part));
  }
  return false;
}

void DownloadTask::Refuse(const absl::Status& why) {
  locks_.Release();
  done_.Answer(why);
}

}  // namespace gemmd::engine
