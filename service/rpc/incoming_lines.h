// The lines of a matrix as they arrive in chunks, cut anywhere: what of them
// has come and can go to a device. Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_INCOMING_LINES_H_
#define GEMMD_SERVICE_RPC_INCOMING_LINES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "service/device/device.h"
#include "service/rpc/message.h"
#include "service/rpc/wire_layout.h"

namespace gemmd::rpc {

class IncomingLines {
 public:
  // Consecutive bytes that go to the device together, or nowhere.
  struct Part {
    device::LineRange lines;  // None: padding.
    int64_t bytes = 0;        // On the wire. 0: more must come first.
  };

  // `layout` is not empty, and its matrices do not overlap on the wire
  // (CheckApart). Errors call the bytes `name`.
  IncomingLines(std::string name, const jit::MatrixLayout& layout,
                const WireLayout& wire);

  // `data` lies in `message` and comes next. INVALID_ARGUMENT when that is more
  // than the matrix has.
  absl::Status Append(Message message, Pieces data);
  // INVALID_ARGUMENT unless all bytes have come.
  absl::Status CheckComplete() const;

  // What can go when `before` bytes of those that are here have gone.
  Part Next(int64_t before = 0) const;
  // The first `count` bytes that are here, valid until they are dropped.
  Pieces Front(int64_t count) const { return queue_.Front(count); }
  // They have gone.
  void Drop(int64_t count);

  // Bytes that are here; and of the messages in which they are kept.
  int64_t size() const { return queue_.size(); }
  int64_t held_bytes() const { return queue_.held_bytes(); }
  // Keeps nothing else than the bytes that are here, by a copy of them.
  void Detach() { queue_.Detach(); }

  int64_t pitch_bytes() const { return wire_.pitch_bytes; }

 private:
  const std::string name_;
  const jit::MatrixLayout layout_;
  const WireLayout wire_;
  // Matrices that lie one behind the other are one run of lines; others are a
  // run each, which begin so many bytes apart.
  const int64_t run_lines_;
  const int64_t run_bytes_;
  int64_t sent_ = 0;  // Bytes that were dropped.
  PieceQueue queue_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_INCOMING_LINES_H_
