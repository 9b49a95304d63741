// Moments as gRPC takes them, by the clock that nobody sets: one of the
// system's could be set before gRPC has asked how far it is from there.
#ifndef GEMMD_SERVICE_RPC_GRPC_TIME_H_
#define GEMMD_SERVICE_RPC_GRPC_TIME_H_

#include <grpc/support/time.h>

#include <algorithm>

#include "absl/time/time.h"
#include "jit/base/steady_time.h"

namespace gemmd::rpc {

inline gpr_timespec After(absl::Duration time) {
  const timespec left = absl::ToTimespec(std::max(time, absl::ZeroDuration()));
  return gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      {left.tv_sec, static_cast<int32_t>(left.tv_nsec), GPR_TIMESPAN});
}

// `steady` is of jit::SteadyNow.
inline gpr_timespec At(absl::Time steady) {
  return After(steady - jit::SteadyNow());
}

// The reverse; InfiniteFuture for a time that never comes.
inline absl::Time ToSteady(gpr_timespec time) {
  const gpr_timespec left = gpr_convert_clock_type(time, GPR_TIMESPAN);
  if (gpr_time_cmp(left, gpr_inf_future(GPR_TIMESPAN)) == 0) {
    return absl::InfiniteFuture();
  }
  return jit::SteadyNow() + absl::Seconds(left.tv_sec) +
         absl::Nanoseconds(left.tv_nsec);
}

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_GRPC_TIME_H_
