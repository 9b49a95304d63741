// The products, or groups of them, that `gemmctl load` asks for again and
// again, with operands of small random integers.
#ifndef GEMMD_CLIENTS_GEMMCTL_LOAD_WORK_H_
#define GEMMD_CLIENTS_GEMMCTL_LOAD_WORK_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "clients/cpp/client.h"
#include "jit/problem/group_line.h"

namespace gemmd::gemmctl {

// How operands and results travel.
enum class Way {
  kInline,    // In one message.
  kStream,    // In chunks.
  kResident,  // Not at all: they are tensors.
  kShared,    // Not at all: they are in memory shared with the daemon.
  kStriped,   // By several connections, as tensors for the time of a request.
  kSequence,  // Not at all: as kResident, several products in a request.
  kEncoded,   // As kSequence, of which the request is encoded once.
  kWeights,   // B, with its scale, as kResident; the rest as kInline.
};
// "inline", ...; the message of an error is what is allowed.
absl::StatusOr<Way> ParseWay(const std::string& name);

// What is asked for.
struct Asked {
  jit::ProblemGroup problems;  // One, unless it is grouped.
  bool grouped = false;
  Way way = Way::kInline;
  int stripes = 1;     // Connections of one request of kStriped.
  int steps = 1;       // Products of one request of kSequence, or kEncoded.
  std::string device;  // "": the daemon's choice, of each tensor and product.
};
// `line` is that of a problem or of a group. INVALID_ARGUMENT or UNIMPLEMENTED
// says what is wrong with it, or that it does not go that way.
absl::StatusOr<Asked> ParseWork(const std::string& line, Way way);

// Operands of that. Immutable: workers share them.
class Work {
 public:
  // For at most `workers` requests. Tensors live no longer than the connection
  // of `client`.
  static absl::StatusOr<std::unique_ptr<Work>> Create(client::Client& client,
                                                      const Asked& asked,
                                                      int workers);

  // A worker's own request, with places for its results.
  struct Request {
    bool grouped = false;
    std::vector<client::Product> products;     // One, unless it is grouped.
    std::optional<client::Sequence> sequence;  // In place of them, this
    std::optional<client::EncodedSequence> encoded;  // or this.
    std::deque<std::string> results;  // That the products point into.

    // Of all of them.
    absl::StatusOr<v1::Execution> Send(client::Client& client,
                                       absl::Duration timeout);
  };
  absl::StatusOr<std::unique_ptr<Request>> MakeRequest(client::Client& client,
                                                       int worker) const;

  const std::string& name() const { return name_; }
  // Of one request: products, their multiplications and additions, and bytes
  // that travel.
  int64_t products() const;
  double operations() const;
  int64_t sent_bytes() const;
  int64_t returned_bytes() const;

 private:
  struct Input {
    client::Operand client::Product::*operand;
    jit::MatrixLayout layout;
    std::string bytes;
    std::string tensor;
    int64_t offset = 0;  // In the shared memory.
  };
  struct Member {
    jit::Problem problem;
    std::vector<Input> inputs;
  };

  explicit Work(const Asked& asked);

  static Member MemberOf(const jit::Problem& problem);
  // Puts the inputs into shared memory, before the results of each worker.
  absl::Status Share(client::Client& client, int workers);
  // `place` gives a result bytes of its own.
  using Place = absl::FunctionRef<client::Destination(int64_t bytes)>;
  absl::StatusOr<client::Product> MakeProduct(client::Client& client,
                                              const Member& member,
                                              Place place) const;
  // Whether several products are a request.
  static bool IsSequence(Way way) {
    return way == Way::kSequence || way == Way::kEncoded;
  }
  // Whether operands and results are tensors; whether that one is.
  bool has_tensors() const;
  bool IsTensor(const Input& input) const;
  // Of one request in shared memory.
  int64_t result_bytes() const;

  const bool grouped_;
  const Way way_;
  const int stripes_;
  const int steps_;
  const std::string device_;
  const std::string name_;
  std::vector<Member> members_;
  std::unique_ptr<client::SharedMemory> memory_;  // Of Way::kShared.
  int64_t results_offset_ = 0;                    // There.
};

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_LOAD_WORK_H_
