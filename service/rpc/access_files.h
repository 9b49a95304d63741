// The files that say who may call: the certificate and what goes with it, the
// policy, its tokens. Taken into the runtime at the start of the server and
// again whenever they change; a change that is no good is logged, and what was
// there before stays in force. Used by one thread.
#ifndef GEMMD_SERVICE_RPC_ACCESS_FILES_H_
#define GEMMD_SERVICE_RPC_ACCESS_FILES_H_

#include <memory>

#include "absl/status/status.h"
#include "service/engine/periodic.h"
#include "service/identity/gate.h"
#include "service/rpc/runtime.h"
#include "service/tls/keeper.h"

namespace gemmd::rpc {

class AccessFiles {
 public:
  // `runtime` outlives this.
  explicit AccessFiles(Runtime& runtime) : runtime_(runtime) {}

  // Sets the runtime's `tls` and `gate`, of files that are named. From then on
  // those are watched, by a thread of their own.
  absl::Status Open(const tls::Files& tls, const identity::Files& identity);
  // Watches no more.
  void Close() { reload_.reset(); }

 private:
  // Gives the principals what the policy grants them.
  void ApplyPolicy();
  void Reload();

  Runtime& runtime_;
  std::unique_ptr<engine::Periodic> reload_;  // Null where nothing is watched.
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_ACCESS_FILES_H_
