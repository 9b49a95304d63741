// The daemon's TLS files, and the context of what they hold now. Thread-safe.
#ifndef GEMMD_SERVICE_TLS_KEEPER_H_
#define GEMMD_SERVICE_TLS_KEEPER_H_

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "jit/base/last_loaded.h"
#include "service/tls/context.h"

namespace gemmd::tls {

class Keeper {
 public:
  // INVALID_ARGUMENT names the option and the file.
  static absl::StatusOr<std::unique_ptr<Keeper>> Open(Files files);

  // Reads the files again. True when they have changed: connections that begin
  // from now on get what they hold, and client certificates of all connections
  // are judged by it. An error, once, when they do not go together, as while
  // some of them are being replaced: what was before goes on.
  absl::StatusOr<bool> Reload();

  // What Context::CheckTime says of the present one, once.
  absl::Status CheckTime(absl::Time now);

  std::shared_ptr<const Context> context() const;

 private:
  explicit Keeper(Files files) : files_(std::move(files)) {}

  absl::StatusOr<Pem> Read() const;
  absl::Status Load(const Pem& pem);

  const Files files_;
  // Of the thread that reloads:
  jit::LastLoaded<Pem> loaded_;
  std::shared_ptr<const Context> refused_;  // By its time, which was told.
  mutable std::mutex mutex_;
  std::shared_ptr<const Context> context_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd::tls

#endif  // GEMMD_SERVICE_TLS_KEEPER_H_
