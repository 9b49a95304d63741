#include "service/rpc/take_temporaries.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/steady_time.h"
#include "service/engine/try_again.h"

namespace gemmd::rpc {
namespace {

// Who has waited for so long asks again even where there seems to be no room:
// that makes those hurry who hold some and do not use it.
constexpr absl::Duration kPress = absl::Seconds(2);

absl::Status Refusal(const absl::Status& status) {
  return absl::Status(
      status.code(),
      absl::StrCat("operands and results on the device: ", status.message()));
}

}  // namespace

absl::Status CheckTensorBytes(Runtime& runtime, const jit::MatrixLayout& layout,
                              absl::string_view what) {
  // Counted without the product overflowing: a width of 2^31 - 1 elements of
  // 4 bytes times as many lines is just below 2^64.
  const double bytes = static_cast<double>(layout.pitch_bytes()) *
                       static_cast<double>(layout.lines());
  if (bytes <= static_cast<double>(runtime.limits.max_tensor_bytes)) {
    return absl::OkStatus();
  }
  runtime.metrics.Rejected(Rejection::kTensorSize);
  return absl::ResourceExhaustedError(absl::StrCat(
      what, " has about ", bytes, " bytes; the limit of all tensors is ",
      runtime.limits.max_tensor_bytes));
}

Async<absl::StatusOr<Temporaries>> TakeTemporaries(
    Runtime& runtime, Call& call, std::vector<jit::MatrixLayout> layouts,
    int device) {
  const engine::RequestContext context = call.request_context();
  const engine::TensorStore& store = runtime.engine.tensors();
  int64_t bytes = 0;
  for (const jit::MatrixLayout& layout : layouts) {
    bytes += layout.device_bytes();
  }
  // Who needs no room waits for none, however much he has.
  if (bytes == 0) {
    co_return runtime.engine.MakeTemporaries(layouts, device, context.identity);
  }
  const auto fits = [&] {
    return store.free_bytes(device, context.identity) >= bytes;
  };
  // The calls that run give him no room when they end: he waits for what he
  // holds himself, or for tensors to be deleted.
  const auto steps_back = [&] {
    return bytes <= store.max_bytes_of_one(device, context.identity) &&
           (bytes > store.own_free_bytes(device, context.identity) ||
            bytes > store.attainable_bytes(device));
  };
  const absl::Time start = jit::SteadyNow();
  const absl::Time until =
      std::min(context.deadline, start + runtime.limits.max_wait);
  std::optional<absl::Time> asked;
  RoomLine::Place place(runtime.rooms[device], steps_back);
  while (true) {
    if (!call.ended().ok()) co_return call.ended();
    CO_RETURN_IF_ERROR(context.Check("there was room on the device"));
    const absl::Time now = jit::SteadyNow();
    if (place.is_first()) {
      if (fits() || !asked || now - *asked > kPress) {
        absl::StatusOr<Temporaries> taken = runtime.engine.MakeTemporaries(
            layouts, device, context.identity, /*again=*/asked.has_value());
        asked = now;
        if (taken.ok() || !absl::IsResourceExhausted(taken.status())) {
          co_return taken;
        }
        if (bytes > store.max_bytes_of_one(device, context.identity)) {
          co_return Refusal(taken.status());
        }
      }
      place.LetPass();
    }
    if (now - start > runtime.limits.max_wait) {
      co_return engine::TryAgainError(
          absl::StrCat(
              "operands and results take ", bytes,
              " bytes of the device, and there was no room for them in ",
              absl::FormatDuration(runtime.limits.max_wait), " (--max-wait)"),
          absl::Seconds(1));
    }
    RoomLine::Wait wait(place, call.loop(), until);
    call.WhenGivenUp([&wait] { wait.Wake(); });
    co_await wait;
    call.WhenGivenUp(nullptr);
  }
}

}  // namespace gemmd::rpc
