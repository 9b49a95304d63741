// The headers of a sequence's steps, read one after the other. Most make
// products that steps before them made too, of other operands: a problem is
// read and validated once for all that say it in the same bytes.
// Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_STEP_HEADERS_H_
#define GEMMD_SERVICE_RPC_STEP_HEADERS_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gemmd/v1/matmul.pb.h"
#include "jit/problem/problem.h"

namespace gemmd::rpc {

class StepHeaders {
 public:
  // Moves to the header in `bytes`. Errors are those of a request with it.
  absl::Status Read(absl::string_view bytes);

  // Of the one that was read:
  const jit::Problem& problem() const { return problem_; }
  // all but the problem, which may be left out.
  const v1::MatmulHeader& header() const { return header_; }

 private:
  // The problem and what is behind it, each by itself. False where the bytes
  // are of another form, or none.
  absl::StatusOr<bool> ReadInParts(absl::string_view bytes);

  v1::MatmulHeader header_;
  jit::Problem problem_;
  absl::flat_hash_map<std::string, jit::Problem> problems_;  // By their bytes.
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_STEP_HEADERS_H_
