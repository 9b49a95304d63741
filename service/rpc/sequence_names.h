// What the steps of a sequence call by names: operands of the call, which were
// sent along or lie in regions, and results. From it comes what the call needs
// on its device: the room of what is not read any more serves what is written
// later. Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_SEQUENCE_NAMES_H_
#define GEMMD_SERVICE_RPC_SEQUENCE_NAMES_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gemmd/v1/regions.pb.h"
#include "gemmd/v1/types.pb.h"
#include "service/engine/sequence.h"
#include "service/rpc/message.h"
#include "service/rpc/region/store.h"
#include "service/rpc/runtime.h"
#include "service/rpc/take_temporaries.h"
#include "service/rpc/wire_layout.h"

namespace gemmd::rpc {

// An operand of the call: its bytes, or the region that it is in.
struct SequenceOperand {
  v1::Layout layout;  // Unless it is in a region, which then gives it.
  Pieces data;
  std::optional<v1::RegionPart> region;
};

class SequenceNames {
 public:
  // All operands come before the first step. INVALID_ARGUMENT for names that
  // are not allowed or taken, here and below.
  absl::Status AddOperand(const std::string& name, SequenceOperand operand);
  // Of the steps, in their order.
  void BeginStep() { ++step_; }
  // Whether the present one has read or written any so far, or returns a
  // result.
  bool StepUsesAny() const {
    return !uses_.empty() && uses_.back().step == static_cast<size_t>(step_);
  }

  // Whether `name` stands for one matrix, whatever the batch.
  bool IsSingle(const std::string& name) const;
  // The step's `input` is what is called `name`, which has `layout`. `field` is
  // how the step calls it. Regions are those of `identity`.
  absl::Status Read(const region::Store& regions, const std::string& identity,
                    const std::string& name, const jit::MatrixLayout& layout,
                    absl::string_view field,
                    engine::Input engine::Product::*input);
  // The step's `output` has `layout`, and a name unless that is empty. One that
  // `leaves` is returned, or goes to a region, when all steps are done.
  absl::Status Write(const std::string& name, const jit::MatrixLayout& layout,
                     bool leaves, absl::string_view field,
                     engine::Destination engine::Product::*output);

  // As rpc::BoundTo, of the operands that the steps have read so far.
  absl::StatusOr<int> BoundTo(const Runtime& runtime, int device) const;

  // As rpc::CheckOverlap, of the same operands.
  absl::Status CheckOverlap(int64_t most_bytes) const;

  // After the last step: what is to be on the device.
  std::vector<jit::MatrixLayout> Rooms();
  // Gives the steps of `sequence` what they named, and it the operands that any
  // step reads. `rooms` are of Rooms().
  void Bind(const Temporaries& rooms, engine::Sequence& sequence);

 private:
  // What stands for one matrix of the call.
  struct Value {
    std::string name;
    int written = 0;  // By that step; -1: an operand of the call.
    int last_use = 0;
    std::optional<jit::MatrixLayout> layout;  // Once a step has read it.
    size_t room = 0;
    // Of an operand of the call; these two once a step has read it.
    SequenceOperand operand;
    WireLayout wire;
    std::shared_ptr<const device::Region> region;
    // The operand that this is as often as another batch has matrices.
    std::optional<size_t> repeats;

    bool is_for_every_batch() const {
      return written < 0 && operand.layout.has_batch_stride() &&
             operand.layout.batch_stride() == 0;
    }
    bool has_room() const { return layout && !layout->empty(); }
  };
  struct Use {
    size_t step;
    size_t value;
    engine::Input engine::Product::*input = nullptr;
    engine::Destination engine::Product::*output = nullptr;
  };

  // What is to be read as `layout` of values_[first]: that one itself, unless
  // it is an operand for every batch that was read for batches of other sizes.
  size_t ValueFor(size_t first, const jit::MatrixLayout& layout);
  // Finds the bytes of an operand, which `text` names.
  static absl::Status Look(const region::Store& regions,
                           const std::string& identity,
                           const jit::MatrixLayout& layout,
                           absl::string_view text, Value& value);
  absl::Status CheckNew(const std::string& name, absl::string_view field) const;
  std::string Known() const;

  int step_ = -1;
  std::vector<Value> values_;  // In the order in which they are written.
  absl::flat_hash_map<std::string, size_t> by_name_;
  std::vector<Use> uses_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_SEQUENCE_NAMES_H_
