// What the steps of a sequence call by names: operands that were sent along,
// and results. From it comes what the call needs on its device: the room of
// what is not read any more serves what is written later. Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_SEQUENCE_NAMES_H_
#define GEMMD_SERVICE_RPC_SEQUENCE_NAMES_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "service/engine/sequence.h"
#include "service/rpc/message.h"
#include "service/rpc/take_temporaries.h"
#include "service/rpc/wire_layout.h"

namespace gemmd::rpc {

class SequenceNames {
 public:
  // All operands come before the first step. INVALID_ARGUMENT for names that
  // are not allowed or taken, here and below.
  absl::Status AddOperand(const std::string& name, v1::Layout layout,
                          Pieces data);
  // Of the steps, in their order.
  void BeginStep() { ++step_; }

  // Whether `name` stands for one matrix, whatever the batch.
  bool IsSingle(const std::string& name) const;
  // The step's `input` is what is called `name`, which has `layout`. `field` is
  // how the step calls it.
  absl::Status Read(const std::string& name, const jit::MatrixLayout& layout,
                    absl::string_view field,
                    engine::Input engine::Product::*input);
  // The step's `output` has `layout`, and a name unless that is empty.
  absl::Status Write(const std::string& name, const jit::MatrixLayout& layout,
                     bool is_returned, absl::string_view field,
                     engine::Destination engine::Product::*output);

  // After the last step: what is to be on the device.
  std::vector<jit::MatrixLayout> Rooms();
  // Gives the steps of `sequence` what they named, and it the operands that any
  // step reads. `rooms` are of Rooms().
  void Bind(const Temporaries& rooms, engine::Sequence& sequence);

 private:
  // What stands for one matrix of the call.
  struct Value {
    std::string name;
    int written = 0;  // By that step; -1: sent along.
    int last_use = 0;
    std::optional<jit::MatrixLayout> layout;  // Once a step has read it.
    size_t room = 0;
    // Of one that was sent along.
    v1::Layout sent;
    WireLayout wire;
    Pieces data;

    bool has_room() const { return layout && !layout->empty(); }
  };
  struct Use {
    size_t step;
    size_t value;
    engine::Input engine::Product::*input = nullptr;
    engine::Destination engine::Product::*output = nullptr;
  };

  absl::Status CheckNew(const std::string& name, absl::string_view field) const;
  std::string Known() const;

  int step_ = -1;
  std::vector<Value> values_;  // In the order in which they are written.
  absl::flat_hash_map<std::string, size_t> by_name_;
  std::vector<Use> uses_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_SEQUENCE_NAMES_H_
