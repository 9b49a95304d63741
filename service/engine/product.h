// One product as the engine sees it, and its steps on a lane.
#ifndef GEMMD_SERVICE_ENGINE_PRODUCT_H_
#define GEMMD_SERVICE_ENGINE_PRODUCT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "jit/problem/problem.h"
#include "service/device/device.h"
#include "service/engine/kept_forms.h"
#include "service/engine/kernel_table.h"
#include "service/engine/paths.h"
#include "service/engine/request_context.h"
#include "service/engine/tensor_locks.h"

namespace gemmd::engine {

// Where an input comes from: a tensor, or bytes.
// Both empty when the problem does not read it.
struct Input {
  std::shared_ptr<Tensor> tensor;
  // The request writes the tensor itself, which its lock does not tell: forms
  // that are kept for others are not of these elements.
  bool changes = false;
  std::vector<absl::Span<const char>> pieces;
  int64_t pitch_bytes = 0;
  int64_t matrix_bytes = 0;  // From one matrix of a batch to the next.
  // That the bytes are in, in one piece; null: in none. Of a device's they are
  // addresses there.
  std::shared_ptr<const device::Region> region;
  bool is_streamed = false;  // To the tensor, for this product alone.
};

// Where a result goes: to a tensor or a region, or it is returned. In a
// sequence what goes to a region is in a tensor first, one of its rooms.
struct Destination {
  std::shared_ptr<Tensor> tensor;
  device::RegionPlace place;
  int64_t pitch_bytes = 0;  // From line to line, unless it stays in a tensor.
  // Also where it is in a tensor, which the request alone has.
  bool is_returned = false;
};

// Valid: lengths fit the problem, tensors have its layouts and one device.
struct Product {
  jit::Problem problem;
  Input a;
  Input b;
  Input c;
  Destination d;
  // What the problem's epilogue takes and gives beside C and D.
  Input bias;
  Input a_scale;
  Input b_scale;
  Input d_scale;
  Destination auxiliary;
  // Owns the bytes of the inputs that are in no region; null: whoever asks
  // keeps them until the answer.
  std::shared_ptr<const void> bytes;
};

inline constexpr Input Product::*kInputs[] = {
    &Product::a,       &Product::b,       &Product::c,      &Product::bias,
    &Product::a_scale, &Product::b_scale, &Product::d_scale};
inline constexpr Destination Product::*kResults[] = {&Product::d,
                                                     &Product::auxiliary};
// The bytes of the region that a result of `layout` goes to, from the first
// that is written to the last. Nothing where it goes to none.
absl::Span<const char> WrittenBytes(const Destination& to,
                                    const jit::MatrixLayout& layout);
// Whether they have bytes in common.
inline bool Overlap(absl::Span<const char> one, absl::Span<const char> other) {
  return one.data() < other.data() + other.size() &&
         other.data() < one.data() + one.size();
}
using ResultSpan = absl::Span<Destination Product::*const>;
// Those of kResults that `problem` writes. All have the layout of its D.
ResultSpan ResultsOf(const jit::Problem& problem);

// Whether the answer may come before the product has ended: it reads nothing
// that whoever asked keeps until then, and writes nothing of his.
bool MayBeAbandoned(const Product& product);

struct Phases {
  absl::Duration queue;
  absl::Duration plan;
  absl::Duration compile;
  absl::Duration upload;
  absl::Duration execute;
  absl::Duration download;
  // Of kernels, which run beside other phases where a product goes in bands.
  absl::Duration kernels;
};

// What a product returns; null where it went to a tensor or is not asked for.
struct Results {
  std::unique_ptr<device::HostBuffer> d;
  std::unique_ptr<device::HostBuffer> auxiliary;
  std::optional<float> amax;
  int copies = 0;  // As Paths::copies; not of a sequence.
};

// A matrix for the elements of `tensor`, of any content, unless it has one.
absl::Status GiveMatrix(device::Lane& lane, Tensor& tensor);
// The bytes of `input` to `matrix`. Of a batch that takes many copies, looks at
// `context` between them.
absl::Status UploadBatch(device::Lane& lane, const Input& input,
                         const RequestContext& context, device::Matrix& matrix);

// An input on the device: a tensor's matrix, or one made for a product, or over
// memory of a client's.
struct Resident {
  std::unique_ptr<device::Matrix> owned;
  KeptForms::Shared kept;
  const device::Matrix* matrix = nullptr;
};

// An operand as the plan reads it: in its form, or as it is stored and the
// metadata beside it.
struct Operand {
  Resident values, metadata;
};

// Brings an input to the device and derives its `form`, if `forms` does. Counts
// copies, as Paths::copies.
absl::StatusOr<Operand> BringOperand(device::Lane& lane, Forms* forms,
                                     const Input& input,
                                     const jit::MatrixLayout& layout,
                                     jit::Form form,
                                     const RequestContext& context,
                                     int& copies);

// An output on the device: a tensor's matrix, or one made for a product, or
// over memory of a client's, where it is to go.
struct Output {
  std::unique_ptr<device::Matrix> owned;
  device::Matrix* matrix = nullptr;
  bool is_borrowed = false;
};

// The matrices of a product, which it owns where they are nobody else's. They
// may go as soon as it is enqueued, but for what is still to be read.
struct Placed {
  Operand a, b;
  Resident c, bias, a_scale, b_scale, d_scale;
  Output d, auxiliary, amax;
  int copies = 0;  // As Paths::copies.
};

// Brings the inputs of a product to the device and makes room for its outputs.
// The problem writes(), and the tensors are held. It is one of `all`, which run
// in any order.
absl::StatusOr<Placed> PlaceProduct(device::Lane& lane,
                                    const Prepared& prepared,
                                    const Product& product,
                                    absl::Span<const Product> all,
                                    const RequestContext& context);
// What a lane multiplies.
device::Operands OperandsOf(const jit::Problem& problem, const Placed& placed);
// That tensors which it writes may change from now on.
void NoteWrites(const Product& product);
// Enqueues it, and notes that.
absl::Status Launch(device::Lane& lane, const Prepared& prepared,
                    const Product& product, const Placed& placed);
// What it returns, when it is done.
absl::StatusOr<Results> DownloadResults(device::Lane& lane,
                                        const Product& product,
                                        const Placed& placed);
// The one f32 in `matrix`, when what computes it is done.
absl::StatusOr<float> DownloadValue(device::Lane& lane,
                                    const device::Matrix& matrix);

// Uploads, multiplies, downloads. The problem writes(), and the tensors are
// held.
absl::StatusOr<Results> RunProduct(device::Lane& lane, const Prepared& prepared,
                                   const Product& product,
                                   const RequestContext& context,
                                   Phases& phases);

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_PRODUCT_H_
