// The headers of a sequence's steps, read one after the other. Most make
// products that steps before them made too: a problem is read and validated
// once for all that say it in the same bytes, and so is what is behind it, of
// the same operands. Thread-compatible.
#ifndef GEMMD_SERVICE_RPC_STEP_HEADERS_H_
#define GEMMD_SERVICE_RPC_STEP_HEADERS_H_

#include <google/protobuf/arena.h>

#include <cstddef>
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
  explicit StepHeaders(size_t steps) { headers_.reserve(steps); }

  // Moves to the header in `bytes`. Errors are those of a request with it.
  absl::Status Read(const std::string& bytes);

  // Of the one that was read:
  const jit::Problem& problem() const { return problem_; }
  // all but the problem, which may be left out.
  const v1::MatmulHeader& header() const { return *header_; }

 private:
  v1::MatmulHeader* NewHeader() {
    return google::protobuf::Arena::CreateMessage<v1::MatmulHeader>(&arena_);
  }
  // A copy of the bytes.
  absl::string_view Keep(absl::string_view bytes);
  // The problem and what is behind it, each by itself. False where the bytes
  // are of another form, or none.
  absl::StatusOr<bool> ReadInParts(absl::string_view bytes);
  bool ReadRest(absl::string_view rest);

  // Of all headers and bytes that are kept: in the end it goes whole.
  google::protobuf::Arena arena_;
  const v1::MatmulHeader* header_ = nullptr;
  jit::Problem problem_;
  // By their bytes; headers without their problem.
  absl::flat_hash_map<absl::string_view, jit::Problem> problems_;
  absl::flat_hash_map<absl::string_view, const v1::MatmulHeader*> headers_;
};

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_STEP_HEADERS_H_
