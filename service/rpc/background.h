// Work of a call that would hold up the others of its loop: disks, answers of
// more than a few KiB.
#ifndef GEMMD_SERVICE_RPC_BACKGROUND_H_
#define GEMMD_SERVICE_RPC_BACKGROUND_H_

#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "service/rpc/call.h"
#include "service/rpc/engine_call.h"
#include "service/rpc/runtime.h"

namespace gemmd::rpc {

// co_await gives absl::StatusOr<T>: that of `work`, on a thread for such, of
// which each identity gets its share. CANCELLED or DEADLINE_EXCEEDED when
// nobody waits for it any more, and it has not begun.
template <typename T>
auto InBackground(Runtime& runtime, Call& call,
                  absl::AnyInvocable<absl::StatusOr<T>()> work) {
  return CallEngine<T>(
      call.loop(), [&engine = runtime.engine, context = call.request_context(),
                    work = std::move(work)](engine::Done<T> done) mutable {
        const std::string identity = context.identity;
        engine.InBackground<T>(
            identity,
            [context = std::move(context),
             work = std::move(work)]() mutable -> absl::StatusOr<T> {
              RETURN_IF_ERROR(context.Check("its turn came"));
              return work();
            },
            std::move(done));
      });
}

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_BACKGROUND_H_
