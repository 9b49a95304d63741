// A product as words of a command line say it: those of gemmctl matmul, and of
// a line of the list of gemmctl matmul-grouped.
#ifndef GEMMD_CLIENTS_GEMMCTL_MATMUL_OPTIONS_H_
#define GEMMD_CLIENTS_GEMMCTL_MATMUL_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "clients/cli/command_line.h"
#include "clients/gemmctl/problem_options.h"
#include "clients/gemmctl/values.h"

namespace gemmd::gemmctl {

struct MatmulOptions {
  std::string a, b, c, d;
  v1::DataType a_type = v1::DATA_TYPE_UNSPECIFIED;
  v1::DataType b_type = v1::DATA_TYPE_UNSPECIFIED;
  v1::DataType d_type = v1::DATA_TYPE_UNSPECIFIED;
  v1::Order order = v1::ORDER_ROW_MAJOR;
  // Of the operand that is a file of sparse lines.
  v1::Order sparse = v1::ORDER_UNSPECIFIED;
  double alpha = 1;
  double beta = 0;
  ValueNames values;
  std::string auxiliary, amax;
  ProblemOptions problem;
  std::string device;
};

// Adds the operands and the result, and the options of a product; `options`
// outlives the parse.
void DeclareOperands(cli::Command& command, MatmulOptions& options);
void DeclareProduct(cli::Command& command, MatmulOptions& options);

// What --help says of them.
extern const char kProductDetails[];

// What no single option can tell, of one product or of several that go
// together. INVALID_ARGUMENT.
absl::Status CheckProduct(const MatmulOptions& options);
absl::Status CheckFiles(absl::Span<const MatmulOptions> products);

bool UsesStandardOutput(const MatmulOptions& options);

}  // namespace gemmd::gemmctl

#endif  // GEMMD_CLIENTS_GEMMCTL_MATMUL_OPTIONS_H_
