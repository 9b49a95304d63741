#include "service/gpu/pinned_memory.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/gpu/status.h"

namespace gemmd::gpu {
namespace {

constexpr int64_t kSmallestClassBytes = 4096;

class RegisteredMemory final : public device::Pin {
 public:
  RegisteredMemory(const Context* context, char* data)
      : context_(context), data_(data) {}
  ~RegisteredMemory() override {
    if (context_->MakeCurrent().ok()) {
      context_->driver().cuMemHostUnregister(data_);
    }
  }

 private:
  const Context* const context_;
  char* const data_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<device::Pin>> PinMemory(
    const Context* context, absl::Span<char> memory) {
  RETURN_IF_ERROR(context->MakeCurrent());
  RETURN_IF_CUDA_ERROR(context->driver(),
                       cuMemHostRegister(memory.data(), memory.size(),
                                         CU_MEMHOSTREGISTER_PORTABLE));
  return std::make_unique<RegisteredMemory>(context, memory.data());
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : pool_(std::move(other.pool_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  if (this != &other) {
    Reset();
    pool_ = std::move(other.pool_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

void PinnedBuffer::Reset() {
  if (data_ == nullptr) return;
  pool_->Return(data_, PinnedPool::SizeClass(static_cast<int64_t>(size_)));
  data_ = nullptr;
  size_ = 0;
  pool_.reset();
}

std::shared_ptr<PinnedPool> PinnedPool::Create(const Context* context,
                                               Limits limits) {
  return std::shared_ptr<PinnedPool>(new PinnedPool(context, limits));
}

PinnedPool::~PinnedPool() {
  std::lock_guard lock(mutex_);
  FreeIdle();
}

int64_t PinnedPool::SizeClass(int64_t bytes) {
  int64_t base = kSmallestClassBytes;
  if (bytes <= base) return base;
  while (2 * base < bytes) base *= 2;
  const int64_t step = base / 4;
  return (bytes + step - 1) / step * step;
}

absl::StatusOr<PinnedBuffer> PinnedPool::Allocate(int64_t bytes) {
  const int64_t size = SizeClass(bytes);
  RETURN_IF_ERROR(context_->MakeCurrent());
  {
    std::lock_guard lock(mutex_);
    auto found = idle_.find(size);
    if (found != idle_.end() && !found->second.empty()) {
      char* data = found->second.back();
      found->second.pop_back();
      idle_bytes_ -= size;
      return PinnedBuffer(shared_from_this(), data, static_cast<size_t>(bytes));
    }
    if (total_bytes_ + size > limits_.total_bytes) FreeIdle();
    if (total_bytes_ + size > limits_.total_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("Page-locked host memory is used up: ", bytes,
                       " bytes were asked for, ", total_bytes_, " of ",
                       limits_.total_bytes, " are in use"));
    }
    total_bytes_ += size;  // Reserved while the driver pins, unlocked.
  }
  void* data = nullptr;
  const absl::Status pinned =
      ToStatus(context_->driver(),
               context_->driver().cuMemHostAlloc(
                   &data, static_cast<size_t>(size), CU_MEMHOSTALLOC_PORTABLE),
               "cuMemHostAlloc");
  if (!pinned.ok()) {
    std::lock_guard lock(mutex_);
    total_bytes_ -= size;
    return pinned;
  }
  return PinnedBuffer(shared_from_this(), static_cast<char*>(data),
                      static_cast<size_t>(bytes));
}

device::PinnedMemory PinnedPool::use() const {
  std::lock_guard lock(mutex_);
  return {.in_use_bytes = total_bytes_ - idle_bytes_,
          .idle_bytes = idle_bytes_,
          .limit_bytes = limits_.total_bytes};
}

void PinnedPool::Return(char* data, int64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    if (idle_bytes_ + bytes <= limits_.idle_bytes) {
      idle_[bytes].push_back(data);
      idle_bytes_ += bytes;
      return;
    }
    total_bytes_ -= bytes;
  }
  if (context_->MakeCurrent().ok()) context_->driver().cuMemFreeHost(data);
}

void PinnedPool::FreeIdle() {
  const bool current = context_->MakeCurrent().ok();
  for (auto& [bytes, buffers] : idle_) {
    for (char* data : buffers) {
      if (current) context_->driver().cuMemFreeHost(data);
      total_bytes_ -= bytes;
    }
  }
  idle_.clear();
  idle_bytes_ = 0;
}

}  // namespace gemmd::gpu
