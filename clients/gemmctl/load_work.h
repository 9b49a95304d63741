// The products that `gemmctl load` asks for again and again, with operands of
// small random integers.
#ifndef GEMMD_CLIENTS_GEMMCTL_LOAD_WORK_H_
#define GEMMD_CLIENTS_GEMMCTL_LOAD_WORK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "clients/cpp/client.h"
#include "jit/problem/problem.h"

namespace gemmd::gemmctl {

// How operands and results travel.
enum class Way {
  kInline,    // In one message.
  kStream,    // In chunks.
  kResident,  // Not at all: they are tensors.
};
// "inline", ...; the message of an error is what is allowed.
absl::StatusOr<Way> ParseWay(const std::string& name);

// Operands of one problem. Immutable: workers share them.
class Work {
 public:
  // Tensors live no longer than the connection of `client`.
  static absl::StatusOr<std::unique_ptr<Work>> Create(
      client::Client& client, const jit::Problem& problem, Way way);

  // A worker's own request, with places for its results.
  struct Request {
    client::Product product;
    std::string d;
    std::string auxiliary;
  };
  absl::StatusOr<std::unique_ptr<Request>> MakeRequest(
      client::Client& client) const;

  const std::string& name() const { return name_; }
  // Of one request: multiplications and additions, and bytes that travel.
  double operations() const;
  int64_t sent_bytes() const;
  int64_t returned_bytes() const;

 private:
  Work(const jit::Problem& problem, Way way);

  struct Input {
    client::Operand client::Product::*operand;
    jit::MatrixLayout layout;
    std::string bytes;
    std::string tensor;
  };

  const jit::Problem problem_;
  const Way way_;
  const std::string name_;
  std::vector<Input> inputs_;
};

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_LOAD_WORK_H_
