#include "service/host/host_device.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "service/host/blas.h"
#include "service/host/gemm.h"
#include "service/host/hopper/hopper_sums.h"
#include "service/host/machine_memory.h"
#include "service/host/matrix_memory.h"
#include "service/host/parallel.h"
#include "service/host/piece_reader.h"

namespace gemmd::host {
namespace {

// Of a thread, in products of bf16 with the sums of a GPU: bench/host_bench,
// but on cores that others use, too.
constexpr double kMultiplicationsPerS = 5e9;

// Bytes promised to matrices. A limit of our own, because the operating system
// promises more than it has and then kills.
class Budget {
 public:
  explicit Budget(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  bool Take(int64_t bytes) {
    int64_t used = used_bytes_.load();
    do {
      if (bytes > limit_bytes_ - used) return false;
    } while (!used_bytes_.compare_exchange_weak(used, used + bytes));
    return true;
  }
  void Return(int64_t bytes) { used_bytes_ -= bytes; }

  int64_t limit_bytes() const { return limit_bytes_; }
  int64_t free_bytes() const { return limit_bytes_ - used_bytes_; }

 private:
  const int64_t limit_bytes_;
  std::atomic<int64_t> used_bytes_ = 0;
};

class ResidentMatrix : public device::Matrix {
 public:
  // Takes over layout.device_bytes() that were taken from `budget`.
  ResidentMatrix(const jit::MatrixLayout& layout, MatrixMemory data,
                 std::shared_ptr<Budget> budget)
      : Matrix(layout), data_(std::move(data)), budget_(std::move(budget)) {}
  ~ResidentMatrix() override { budget_->Return(layout().device_bytes()); }

  char* line(int64_t i) const {
    return data_.get() + i * layout().pitch_bytes();
  }

 private:
  const MatrixMemory data_;
  const std::shared_ptr<Budget> budget_;
};

char* Data(const device::Matrix* matrix) {
  return matrix == nullptr
             ? nullptr
             : static_cast<const ResidentMatrix*>(matrix)->line(0);
}

// Zeroes the bits behind a line's last element in its last byte.
void ClearSlack(const jit::MatrixLayout& layout, char* line) {
  const int used = layout.last_byte_bits();
  if (used != 8) line[layout.width_bytes() - 1] &= (1 << used) - 1;
}

// The host launches nothing; a kernel stands for the cubin that a GPU would.
class CubinOnly : public device::Kernel {};

class Buffer : public device::HostBuffer {
 public:
  Buffer(std::unique_ptr<char[]> data, size_t size)
      : data_(std::move(data)), size_(size) {}
  absl::Span<char> bytes() override { return {data_.get(), size_}; }

 private:
  const std::unique_ptr<char[]> data_;
  const size_t size_;
};

class HostLane : public device::Lane {
 public:
  HostLane(const device::Device& device, std::shared_ptr<Budget> budget)
      : device_(device), budget_(std::move(budget)) {}

  absl::StatusOr<std::unique_ptr<device::Matrix>> Allocate(
      const jit::MatrixLayout& layout) override {
    const int64_t bytes = layout.device_bytes();
    if (!budget_->Take(bytes)) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the host device has ", budget_->free_bytes(), " of ",
          budget_->limit_bytes(), " bytes left; ", bytes, " were asked for"));
    }
    MatrixMemory data = AllocateMatrix(bytes);
    if (data == nullptr) {
      budget_->Return(bytes);
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for ", bytes, " bytes"));
    }
    return std::make_unique<ResidentMatrix>(layout, std::move(data), budget_);
  }

  absl::Status ClearLines(device::Matrix& matrix,
                          device::LineRange lines) override {
    std::memset(static_cast<ResidentMatrix&>(matrix).line(lines.first), 0,
                lines.count * matrix.layout().pitch_bytes());
    return absl::OkStatus();
  }

  absl::Status CopyFromPeer(const device::Matrix& from,
                            device::Matrix& to) override {
    std::memcpy(Data(&to), Data(&from), from.layout().device_bytes());
    return absl::OkStatus();
  }

  absl::Status Upload(const device::HostMatrix& from, device::LineRange lines,
                      device::Matrix& to) override {
    auto& matrix = static_cast<ResidentMatrix&>(to);
    const int64_t width_bytes =
        device::LayoutOf(to.layout(), lines).width_bytes();
    PieceReader reader(from.pieces);
    for (int64_t i = 0; i < lines.count; ++i) {
      char* const line = matrix.line(lines.first + i);
      reader.Read(line + lines.first_byte, width_bytes);
      ClearSlack(to.layout(), line);
      if (i + 1 < lines.count) reader.Skip(from.pitch_bytes - width_bytes);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<device::HostBuffer>> Download(
      const device::Matrix& from, device::LineRange lines,
      int64_t pitch_bytes) override {
    const auto& matrix = static_cast<const ResidentMatrix&>(from);
    const int64_t width_bytes =
        device::LayoutOf(from.layout(), lines).width_bytes();
    const size_t size = (lines.count - 1) * pitch_bytes + width_bytes;
    std::unique_ptr<char[]> data(new (std::nothrow) char[size]);
    if (data == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for ", size, " bytes"));
    }
    char* to = data.get();
    for (int64_t i = 0; i < lines.count; ++i, to += pitch_bytes) {
      const char* const line = matrix.line(lines.first + i) + lines.first_byte;
      std::memcpy(to, line, width_bytes);
      if (i + 1 < lines.count) {
        std::memset(to + width_bytes, 0, pitch_bytes - width_bytes);
      }
    }
    return std::make_unique<Buffer>(std::move(data), size);
  }

  absl::Status Multiply(const jit::Problem& problem, const jit::Plan& plan,
                        const device::Kernel&,
                        const device::Operands& operands) override {
    const GemmOperands data = {
        .a = Data(operands.a),
        .b = Data(operands.b),
        .c = Data(operands.c),
        .d = Data(operands.d),
        .bias = Data(operands.bias),
        .a_scale = Data(operands.a_scale),
        .b_scale = Data(operands.b_scale),
        .d_scale = Data(operands.d_scale),
        .auxiliary = Data(operands.auxiliary),
        .amax = reinterpret_cast<float*>(Data(operands.amax))};
    const bool by_hopper =
        device_.ArithmeticOf(plan) == device::SumArithmetic::kHopper;
    if (by_hopper && HopperSums::Knows(plan)) {
      Gemm(problem, plan, data);
    } else {
      Gemm(problem, data);
    }
    return absl::OkStatus();
  }

  absl::Status Synchronize() override { return absl::OkStatus(); }

 private:
  const device::Device& device_;
  const std::shared_ptr<Budget> budget_;
};

class HostDevice : public device::Device {
 public:
  HostDevice(const HostDeviceOptions& options, int64_t memory_bytes)
      : arithmetic_(options.arithmetic),
        budget_(std::make_shared<Budget>(memory_bytes)) {
    description_.name = "host";
    description_.product = "CPU";
    description_.memory_bytes = memory_bytes;
    description_.properties = options.model;
    description_.may_hang = false;  // Large products take minutes.
    description_.multiplications_per_s = kMultiplicationsPerS * MostThreads();
    CallBlasOnOneThread();
  }

  const device::Description& description() const override {
    return description_;
  }
  int64_t FreeBytes() const override { return budget_->free_bytes(); }

  // What is summed exactly has the bits of any arithmetic.
  device::SumArithmetic ArithmeticOf(const jit::Plan& plan) const override {
    const bool exact =
        plan.family.instruction.accumulator == jit::DataType::kS32;
    if (exact) return device::SumArithmetic::kHopper;
    return HopperSums::Knows(plan) ? arithmetic_
                                   : device::SumArithmetic::kDouble;
  }

  absl::StatusOr<std::unique_ptr<device::Lane>> CreateLane() override {
    return std::make_unique<HostLane>(*this, budget_);
  }

  absl::StatusOr<std::unique_ptr<device::Kernel>> Load(
      const jit::CompiledKernel& compiled, const jit::Plan&) override {
    if (compiled.cubin.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("kernel ", compiled.name, " has no cubin"));
    }
    return std::make_unique<CubinOnly>();
  }

  absl::Status Probe() override { return absl::OkStatus(); }

 private:
  const device::SumArithmetic arithmetic_;
  const std::shared_ptr<Budget> budget_;
  device::Description description_;
};

}  // namespace

std::unique_ptr<device::Device> CreateHostDevice(HostDeviceOptions options) {
  return std::make_unique<HostDevice>(options, options.memory_bytes > 0
                                                   ? options.memory_bytes
                                                   : MachineBytes() / 2);
}

}  // namespace gemmd::host
