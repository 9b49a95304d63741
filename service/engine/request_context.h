// Who asks and for how long: travels with a request through the engine, which
// looks at it before every expensive step. Copyable, thread-safe.
#ifndef GEMMD_SERVICE_ENGINE_REQUEST_CONTEXT_H_
#define GEMMD_SERVICE_ENGINE_REQUEST_CONTEXT_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gemmd::engine {

struct RequestContext {
  // Who asks: a principal, or where nobody says who he is, the connection.
  // Equal identities share and own together; no other client is shown it.
  std::string identity;
  // What a principal owns is used by nobody else, whoever knows its handle.
  bool is_principal = false;
  // Of turns, an identity of weight 2 gets twice those of one of weight 1.
  int weight = 1;
  // What the request came by: some tensors live no longer than that.
  std::string connection;
  absl::Time deadline = absl::InfiniteFuture();
  // Set when the client has gone; null when that cannot happen.
  std::shared_ptr<const std::atomic<bool>> cancelled;
  // Who asks may ask again, and gets the answer of the first time: what has
  // begun is completed, whoever has gone.
  bool is_repeatable = false;

  // Of what follows on something that has begun.
  RequestContext OfTheRest() const;

  // CANCELLED or DEADLINE_EXCEEDED when nobody waits for the answer any more;
  // `step` is what has not been begun ("compile").
  absl::Status Check(absl::string_view step) const;
};

}  // namespace gemmd::engine

#endif  // GEMMD_SERVICE_ENGINE_REQUEST_CONTEXT_H_
