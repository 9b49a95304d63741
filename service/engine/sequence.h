// Products in order as the engine sees them, and how they run on a lane: one
// behind the other, and one wait at the end.
#ifndef GEMMD_SERVICE_ENGINE_SEQUENCE_H_
#define GEMMD_SERVICE_ENGINE_SEQUENCE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/engine/product.h"
#include "service/engine/request_context.h"
#include "service/engine/tensor.h"

namespace gemmd::engine {

// Valid as a product is, and: every step reads and writes tensors alone, and
// reads none of `rooms` that nothing before it has written. What goes to a
// region too is in one of `rooms` until the end, and goes to bytes that no
// other result goes to.
struct Sequence {
  struct Operand {
    std::string name;              // For errors.
    Input bytes;                   // May be those of a region.
    std::shared_ptr<Tensor> room;  // Where they go: one of `rooms`.
  };

  // Tensors that nobody else can name, without elements until the sequence
  // runs. One may be written by several steps: by each when what was written
  // before is not read any more.
  std::vector<std::shared_ptr<Tensor>> rooms;
  std::vector<Operand> operands;
  // Owns the bytes of those that are in no region; null: as Product::bytes.
  std::shared_ptr<const void> bytes;
  std::vector<Product> steps;
};

// An error of a step, which its text names.
absl::Status OfStep(size_t i, const absl::Status& error);

// Of Sequence::rooms, and so not to be locked.
inline bool IsRoom(const Tensor& tensor) {
  return tensor.identity().handle.empty();
}

// For the inputs that the sequence itself writes.
void MarkChanges(Sequence& sequence);

// Tensors that others can name, each once: those that a step writes, and those
// that are only read.
struct NamedTensors {
  explicit NamedTensors(const Sequence& sequence);
  std::vector<std::shared_ptr<Tensor>> read, written;
};

// As of a product.
bool MayBeAbandoned(const Sequence& sequence);

// Of the steps, with the copies.
std::vector<Paths> PathsOf(const Sequence& sequence);

// Uploads, multiplies, downloads: no region is written before the last product
// is done. `prepared` are of the steps, null of those that write nothing. The
// tensors are held, and MarkChanges was called. While the device multiplies,
// `meanwhile` is called, unless there is an error. The lane has nothing left to
// do afterwards, whatever the status.
absl::StatusOr<std::vector<Results>> RunSequence(
    device::Lane& lane, absl::Span<const Prepared* const> prepared,
    const Sequence& sequence, const RequestContext& context, Phases& phases,
    absl::FunctionRef<void()> meanwhile);

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_SEQUENCE_H_
