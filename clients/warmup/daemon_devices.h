// The devices of a running daemon, as the planner has to know them.
#ifndef GEMMD_CLIENTS_WARMUP_DAEMON_DEVICES_H_
#define GEMMD_CLIENTS_WARMUP_DAEMON_DEVICES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "clients/cpp/client.h"
#include "jit/plan/planner.h"

namespace gemmd::warmup {

// Each kind once.
absl::StatusOr<std::vector<jit::DeviceProperties>> DevicesOf(
    client::Client& client);

}  // namespace gemmd::warmup

#endif  // GEMMD_CLIENTS_WARMUP_DAEMON_DEVICES_H_
