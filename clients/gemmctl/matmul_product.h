// A product whose operands are read, ready to be asked for. Thread-compatible.
#ifndef GEMMD_CLIENTS_GEMMCTL_MATMUL_PRODUCT_H_
#define GEMMD_CLIENTS_GEMMCTL_MATMUL_PRODUCT_H_

#include <optional>
#include <utility>

#include "clients/cpp/client.h"
#include "clients/gemmctl/matmul_options.h"
#include "clients/gemmctl/operand.h"
#include "clients/gemmctl/outputs.h"
#include "clients/gemmctl/values.h"

namespace gemmd::gemmctl {

// What went wrong, and the way in which a command says it: Fail, FailUsage or
// FailFile of command.h.
struct Failure {
  absl::Status status;
  int (*say)(const absl::Status&);
};

class MatmulProduct {
 public:
  explicit MatmulProduct(MatmulOptions options)
      : options_(std::move(options)) {}

  // Reads files and asks the daemon about tensors; once, before all else.
  std::optional<Failure> Load(client::Client& client);

  // It refers to bytes that are held here.
  client::Product product() const;
  // Writes what returned, to the files that were named; they are kept later.
  absl::Status Save(client::Result result, Outputs& outputs) const;

  const MatmulOptions& options() const { return options_; }
  const Matrix& d() const { return d_; }  // Without bytes.

 private:
  std::optional<Failure> LoadC(client::Client& client, jit::Problem& problem);

  const MatmulOptions options_;
  NamedMatrix a_;
  NamedMatrix b_;
  NamedMatrix c_;
  Values values_;
  Matrix d_;
  v1::Problem problem_;
};

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_MATMUL_PRODUCT_H_
