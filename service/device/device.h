// A place where products run: a CUDA GPU (service/gpu) or the host
// (service/host). Both are used through this interface alone.
//
// A device that is lost says so: see lost.h. Work on it fails from then on.
//
// Ownership: a Device outlives every Matrix, Kernel and Lane made by it.
// Thread safety: Device is thread-safe; a Lane is used by one thread at a
// time; a Matrix may be read by several lanes, ordering writes is the
// caller's duty (the engine's per-tensor lock).
#ifndef GEMMD_SERVICE_DEVICE_DEVICE_H_
#define GEMMD_SERVICE_DEVICE_DEVICE_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "jit/base/status.h"
#include "jit/cache/kernel_cache.h"
#include "jit/plan/plan.h"
#include "jit/plan/planner.h"
#include "jit/problem/layout.h"
#include "jit/problem/problem.h"
#include "service/device/region.h"
#include "service/device/stopwatch.h"
#include "service/device/timing.h"

namespace gemmd::device {

// Elements in device memory, lines padded to MatrixLayout::pitch_bytes().
// May be destroyed on any thread; freed once work enqueued on it is done.
class Matrix {
 public:
  explicit Matrix(jit::MatrixLayout layout) : layout_(layout) {}
  virtual ~Matrix() = default;
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;

  const jit::MatrixLayout& layout() const { return layout_; }

 private:
  const jit::MatrixLayout layout_;
};

// A cubin loaded on a device, ready to launch.
class Kernel {
 public:
  virtual ~Kernel() = default;
};

// Host memory that a device filled. It is what a response is sent from, so it
// may outlive the lane and be destroyed on any thread.
class HostBuffer {
 public:
  virtual ~HostBuffer() = default;
  virtual absl::Span<char> bytes() = 0;
};

// Consecutive lines of a matrix: large ones travel in several parts.
struct LineRange {
  int64_t first = 0;
  int64_t count = 0;
  // Of a single line, a part alone: it begins at a multiple of
  // kLinePartBytes, and ends at one or with the line. 0 bytes: all of it.
  int64_t first_byte = 0;
  int64_t bytes = 0;
};
inline constexpr int64_t kLinePartBytes = 4096;

// The layout of the lines, or the part of a line, that `range` names.
// Those of a composite one are bytes.
inline jit::MatrixLayout LayoutOf(jit::MatrixLayout layout, LineRange range) {
  if (layout.composite()) layout = layout.bytes();
  const bool row_major = layout.order == jit::Order::kRowMajor;
  layout.count = 1;
  (row_major ? layout.rows : layout.columns) = range.count;
  if (range.bytes > 0) {
    const auto elements = [&](int64_t bytes) {
      return bytes * 8 / jit::BitsOf(layout.type);
    };
    int64_t& width = row_major ? layout.columns : layout.rows;
    // The last part of a line of bits ends within a byte.
    width = std::min(elements(range.bytes), width - elements(range.first_byte));
  }
  return layout;
}

// Lines of a matrix on the host in pieces (as a transport delivers them, cut
// anywhere): each line of width_bytes(), `pitch_bytes` apart; the last line
// may lack its padding.
struct HostMatrix {
  absl::Span<const absl::Span<const char>> pieces;
  int64_t pitch_bytes = 0;
  // That the bytes are in, in one piece; null: in none.
  std::shared_ptr<const Region> region = nullptr;
};

// The matrices of one product. Null where the problem does not read them.
struct Operands {
  const Matrix* a = nullptr;
  const Matrix* b = nullptr;
  // Of whichever is sparse, in the form kMetadata, if the device derives_forms.
  const Matrix* metadata = nullptr;
  const Matrix* c = nullptr;
  Matrix* d = nullptr;  // May be the matrix given as c.
  // Values of the epilogue, in the layouts that the problem gives.
  const Matrix* bias = nullptr;
  const Matrix* a_scale = nullptr;
  const Matrix* b_scale = nullptr;
  const Matrix* d_scale = nullptr;
  Matrix* auxiliary = nullptr;  // In d's layout.
  Matrix* amax = nullptr;       // One f32.
};

// One of the products that one launch makes.
struct GroupMember {
  const jit::Problem* problem;
  const jit::Plan* plan;
  Operands operands;
};

// A part of a product that can be made as soon as its own operands are there,
// and whose results can leave as soon as it is made.
struct Band {
  struct Input {
    HostMatrix from;
    Matrix* to;  // All of its lines.
  };
  struct Derivation {  // As Lane::Prepare.
    jit::Form form;
    const Kernel* kernel;
    const Matrix* from;
    Matrix* to;
  };
  struct Result {
    const Matrix* from;  // All of its lines.
    RegionPlace to;
    int64_t pitch_bytes;
  };
  // The rest is there by the work that the lane has already.
  std::vector<Input> inputs;
  std::vector<Derivation> derivations;
  GroupMember product;
  std::vector<Result> results;
};

// Until the last band had come, from then until the last was multiplied, and
// until all had returned; of a device that does one at a time, each in all.
struct BandTimes {
  absl::Duration upload;
  absl::Duration execute;
  absl::Duration download;
  absl::Duration kernels;  // Multiplied, whatever else was done.
};

// A queue of work that runs in order, with its own staging memory. Destroyed
// after all its work is done, on any thread.
class Lane {
 public:
  virtual ~Lane() = default;

  // A matrix whose elements are unspecified. RESOURCE_EXHAUSTED with the
  // bytes asked for when memory is used up. `layout` is not empty.
  virtual absl::StatusOr<std::unique_ptr<Matrix>> Allocate(
      const jit::MatrixLayout& layout) = 0;
  // Sets elements to zero: of the given lines, at least one, or all.
  virtual absl::Status ClearLines(Matrix& matrix, LineRange lines) = 0;
  // A matrix over elements that lie at `place`, lines `pitch_bytes` apart,
  // matrices of a batch one behind the other. Null unless they are in memory of
  // this device, and as a matrix of its own would lie there. The lane holds the
  // region until it is synchronized. `layout` is not empty.
  virtual std::unique_ptr<Matrix> Borrow(const RegionPlace&,
                                         const jit::MatrixLayout&,
                                         int64_t /*pitch_bytes*/) {
    return nullptr;
  }
  absl::Status Clear(Matrix& matrix) {
    return ClearLines(matrix, {0, matrix.layout().lines()});
  }
  // Enqueues the copy of `from`, of the same layout, on another device of this
  // kind; the caller keeps it until the lane is synchronized. UNIMPLEMENTED
  // where devices cannot. An error does not say that this device is lost: the
  // other one may be.
  virtual absl::Status CopyFromPeer(const Matrix& from, Matrix& to);
  // `from` holds exactly the lines `lines` of `to`, at least one. Returns when
  // `from` may be released; of a region the bytes may be read until the lane is
  // synchronized, and the lane holds it until then. Of lines of bits the slack
  // in the last byte may hold anything; it is zero on the device.
  virtual absl::Status Upload(const HostMatrix& from, LineRange lines,
                              Matrix& to) = 0;
  // The given lines, at least one, `pitch_bytes` apart; padding between them
  // is zero, the last line has none. Waits for all work of the lane.
  virtual absl::StatusOr<std::unique_ptr<HostBuffer>> Download(
      const Matrix& from, LineRange lines, int64_t pitch_bytes) = 0;
  // The given whole lines, `pitch_bytes` apart, to `to`, which has room for
  // them; nothing between them is written. Waits for all work of the lane.
  virtual absl::Status DownloadTo(const RegionPlace& to, const Matrix& from,
                                  LineRange lines, int64_t pitch_bytes);
  // Enqueues the derivation of `form`, which is not kStored, of `from`.
  // `kernel` is jit::MakePrepareInstance's, `to` has the layout
  // jit::FormLayout. UNIMPLEMENTED on a device that reads operands as they are
  // stored.
  virtual absl::Status Prepare(jit::Form form, const Kernel& kernel,
                               const Matrix& from, Matrix& to);
  // Enqueues the product that `plan` was made for. A and B have the forms that
  // it asks for, if the device derives_forms.
  virtual absl::Status Multiply(const jit::Problem& problem,
                                const jit::Plan& plan, const Kernel& kernel,
                                const Operands& operands) = 0;
  // Enqueues products whose plans have the same kernel, which is grouped.
  virtual absl::Status MultiplyGroup(absl::Span<const GroupMember> members,
                                     const Kernel& kernel);
  // Makes `bands`, at least one, whose plans have the same kernel, in order. As
  // one is multiplied the next may be on its way, and the one before on its way
  // back: results lie where nothing of a later band is read. Waits for all work
  // of the lane, after an error too.
  virtual absl::StatusOr<BandTimes> MultiplyInBands(
      absl::Span<const Band> bands, const Kernel& kernel);
  // Waits for all work of the lane. An error when any of it failed.
  virtual absl::Status Synchronize() = 0;
};

inline absl::Status Lane::Prepare(jit::Form, const Kernel&, const Matrix&,
                                  Matrix&) {
  return absl::UnimplementedError(
      "this device reads operands as they are stored");
}

inline absl::Status Lane::CopyFromPeer(const Matrix&, Matrix&) {
  return absl::UnimplementedError("this device copies from no other");
}

inline absl::Status Lane::DownloadTo(const RegionPlace& to, const Matrix& from,
                                     LineRange lines, int64_t pitch_bytes) {
  constexpr int64_t kBytes = 16 << 20;  // Between.
  const int64_t width = from.layout().width_bytes();
  for (int64_t line = 0; line < lines.count;) {
    const int64_t count =
        std::min(lines.count - line, std::max<int64_t>(1, kBytes / width));
    ASSIGN_OR_RETURN(const std::unique_ptr<HostBuffer> buffer,
                     Download(from, {lines.first + line, count}, width));
    for (int64_t i = 0; i < count; ++i, ++line) {
      std::memcpy(to.bytes() + line * pitch_bytes,
                  buffer->bytes().data() + i * width,
                  static_cast<size_t>(width));
    }
  }
  return absl::OkStatus();
}

inline absl::Status Lane::MultiplyGroup(absl::Span<const GroupMember> members,
                                        const Kernel& kernel) {
  for (const GroupMember& member : members) {
    RETURN_IF_ERROR(
        Multiply(*member.problem, *member.plan, kernel, member.operands));
  }
  return absl::OkStatus();
}

inline absl::StatusOr<BandTimes> Lane::MultiplyInBands(
    absl::Span<const Band> bands, const Kernel& kernel) {
  BandTimes times;
  Stopwatch stopwatch;
  const auto run = [&](const Band& band) -> absl::Status {
    for (const auto& [from, to] : band.inputs) {
      RETURN_IF_ERROR(Upload(from, {0, to->layout().lines()}, *to));
    }
    times.upload += stopwatch.Lap();
    for (const auto& [form, derive, from, to] : band.derivations) {
      RETURN_IF_ERROR(Prepare(form, *derive, *from, *to));
    }
    const auto& [problem, plan, operands] = band.product;
    RETURN_IF_ERROR(Multiply(*problem, *plan, kernel, operands));
    const absl::Duration multiplied = stopwatch.Lap();
    times.execute += multiplied;
    times.kernels += multiplied;
    for (const auto& [from, to, pitch_bytes] : band.results) {
      const LineRange all = {0, from->layout().lines()};
      RETURN_IF_ERROR(DownloadTo(to, *from, all, pitch_bytes));
    }
    times.download += stopwatch.Lap();
    return absl::OkStatus();
  };
  absl::Status status;
  for (const Band& band : bands) {
    if (status = run(band); !status.ok()) break;
  }
  const absl::Status done = Synchronize();
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(done);
  return times;
}

// Whose sums a product is made of; see types.proto.
enum class SumArithmetic : uint8_t { kNone, kHopper, kDouble };

struct Description {
  std::string name;     // "cuda:0" or "host".
  std::string product;  // "NVIDIA H100 80GB HBM3".
  std::string driver;   // "13.0"; empty for the host.
  std::string bus_id;   // "0000:18:00.0" on PCI; empty for the host.
  std::string uuid;     // "GPU-" and 32 digits in groups; empty for the host.
  // How it maps memory of other processes.
  bool imports_vmm = false;
  bool imports_ipc = false;
  // Its kernels read operands in the forms that plans ask for.
  bool derives_forms = false;
  int64_t memory_bytes = 0;
  jit::DeviceProperties properties;
  // Its products take the time that its kernels take: it can be asked for it.
  bool times_kernels = false;
  // False where work may take any time without anything being wrong.
  bool may_hang = true;
  // Where it is not the device whose cycles are predicted; 0: it is.
  double multiplications_per_s = 0;
};

// Page-locked host memory that copies go through.
struct PinnedMemory {
  int64_t in_use_bytes = 0;
  int64_t idle_bytes = 0;
  int64_t limit_bytes = 0;  // 0: the device needs none.
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const Description& description() const = 0;
  virtual int64_t FreeBytes() const = 0;
  virtual PinnedMemory pinned_memory() const { return {}; }
  // For all devices of the process; `memory` stays where it is. Null where
  // devices need none.
  virtual absl::StatusOr<std::unique_ptr<Pin>> PinMemory(absl::Span<char>) {
    return std::unique_ptr<Pin>();
  }
  // Maps an allocation that another process has on this device.
  // INVALID_ARGUMENT for what names none, FAILED_PRECONDITION for what this
  // device does not import; neither changes anything.
  virtual absl::StatusOr<std::unique_ptr<Imported>> ImportMemory(
      const ImportHandle&) {
    return absl::FailedPreconditionError(
        "this device maps no memory of other processes");
  }
  // Of products with `plan`.
  virtual SumArithmetic ArithmeticOf(const jit::Plan&) const {
    return SumArithmetic::kHopper;
  }
  virtual absl::StatusOr<std::unique_ptr<Lane>> CreateLane() = 0;
  // FAILED_PRECONDITION when the device refuses the cubin.
  virtual absl::StatusOr<std::unique_ptr<Kernel>> Load(
      const jit::CompiledKernel& compiled, const jit::Plan& plan) = 0;
  // Does real work and says whether the device still can.
  virtual absl::Status Probe() = 0;

  // Of a device that times_kernels. `contenders` run `problem`, which
  // reads_ab().
  virtual TimingMemory TimingMemoryOf(const jit::Problem&,
                                      absl::Span<const Contender>) const {
    return {};
  }
  // Uses at most `memory_bytes`: RESOURCE_EXHAUSTED when that is less than the
  // least, or memory is used up.
  virtual absl::StatusOr<std::unique_ptr<Timing>> CreateTiming(
      const jit::Problem& problem, absl::Span<const Contender> contenders,
      int64_t memory_bytes);
};

inline absl::StatusOr<std::unique_ptr<Timing>> Device::CreateTiming(
    const jit::Problem&, absl::Span<const Contender>, int64_t) {
  return absl::UnimplementedError(
      "the time of products on this device is not that of its kernels");
}

}  // namespace gemmd::device

#endif  // GEMMD_SERVICE_DEVICE_DEVICE_H_
