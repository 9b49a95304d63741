#include "service/rpc/incoming_lines.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/rpc/connection.h"

namespace gemmd::rpc {

IncomingLines::IncomingLines(std::string name, const jit::MatrixLayout& layout,
                             const WireLayout& wire)
    : name_(std::move(name)),
      layout_(layout),
      wire_(wire),
      run_lines_(IsTight(wire, layout) ? layout.lines()
                                       : layout.matrix_lines()),
      run_bytes_(IsTight(wire, layout) ? std::numeric_limits<int64_t>::max()
                                       : wire.matrix_bytes) {}

absl::Status IncomingLines::Append(Message message, Pieces data) {
  const int64_t size = SizeOf(data);
  if (size > wire_.most_bytes - sent_ - queue_.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name_, " goes beyond the ", wire_.most_bytes, " bytes of its shape"));
  }
  queue_.Append(std::move(message), std::move(data));
  return absl::OkStatus();
}

absl::Status IncomingLines::CheckComplete() const {
  return CheckLength(wire_, sent_ + queue_.size(), name_);
}

IncomingLines::Part IncomingLines::Next(int64_t before) const {
  const int64_t available = queue_.size() - before;
  if (available == 0) return {};
  const int64_t position = sent_ + before;
  // The padding behind the last run is its own, however close runs are.
  const int64_t last_run = layout_.lines() / run_lines_ - 1;
  const int64_t run = std::min(position / run_bytes_, last_run);
  const int64_t at = position - run * run_bytes_;
  const int64_t of_run =
      run == last_run ? available : std::min(available, run_bytes_ - at);
  const int64_t width = layout_.width_bytes();
  const int64_t line = at / wire_.pitch_bytes;
  const int64_t first_byte = at % wire_.pitch_bytes;
  if (line >= run_lines_) return {.lines = {}, .bytes = of_run};
  if (first_byte >= width) {
    return {.lines = {},
            .bytes = std::min(of_run, wire_.pitch_bytes - first_byte)};
  }
  const int64_t first = run * run_lines_ + line;
  if (first_byte == 0 && available >= width) {
    const int64_t count = std::min(run_lines_ - line,
                                   (available - width) / wire_.pitch_bytes + 1);
    return {.lines = {first, count},
            .bytes = (count - 1) * wire_.pitch_bytes + width};
  }
  int64_t bytes = width - first_byte;
  if (available < bytes) {
    // A long line goes in pieces: little is left to be held.
    if (available <= kCallAllowanceBytes) return {};
    bytes = available / device::kLinePartBytes * device::kLinePartBytes;
  }
  return {.lines = {first, 1, first_byte, bytes}, .bytes = bytes};
}

void IncomingLines::Drop(int64_t count) {
  queue_.Drop(count);
  sent_ += count;
}

}  // namespace gemmd::rpc
