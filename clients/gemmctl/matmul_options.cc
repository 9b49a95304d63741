#include "clients/gemmctl/matmul_options.h"

#include "absl/algorithm/container.h"
#include "clients/gemmctl/command.h"
#include "clients/gemmctl/convert.h"
#include "clients/gemmctl/outputs.h"
#include "jit/base/status.h"

namespace gemmd::gemmctl {
namespace {

constexpr char kStandard[] = "-";

// Names of files and tensors.
std::vector<std::string> Inputs(const MatmulOptions& options) {
  const ValueNames& values = options.values;
  return {options.a,      options.b,      options.c,     values.bias,
          values.a_scale, values.b_scale, values.d_scale};
}
std::vector<std::string> OutputNames(const MatmulOptions& options) {
  return {options.d, options.auxiliary, options.amax};
}

}  // namespace

void DeclareOperands(cli::Command& command, MatmulOptions& o) {
  command.Text("A", o.a, "A matrix: FILE.npy, - or tensor:HANDLE.");
  command.Text("B", o.b, "Likewise.");
  FileOption(command, "-o,--output D", o.d, "Where the result goes; likewise.");
  command.Require("--output");
}

void DeclareProduct(cli::Command& command, MatmulOptions& o) {
  command.Parsed(
      "--dtype TYPE", "",
      [&o](const std::string& text) {
        ASSIGN_OR_RETURN(o.a_type, ParseDataType(text));
        o.b_type = o.a_type;
        return absl::OkStatus();
      },
      "Of A and B: converts f4 files, names the type of V1, i1, u1 and u2 "
      "files.");
  TypeOption(command, "--b-type TYPE", o.b_type, "Of B, where it is another.");
  TypeOption(command, "--d-type TYPE", o.d_type,
             "Of D. Default: that of A; s32 of integers and bits.");
  SideOption(command, "--sparse SIDE", o.sparse,
             "a or b: which one is a file of gemmctl compress, of --dtype.");
  OrderOption(command, "--order ORDER", o.order, "Of D: row or column.");
  command.Number("--alpha X", o.alpha, "The factor of A B.");
  command.Number("--beta X", o.beta, "The factor of C.");
  FileOption(command, "--c C", o.c,
             "Required when beta is not 0. Needs --beta.");
  command.Require("--c", "--beta");
  o.problem.Declare(command);
  FileOption(command, "--bias FILE", o.values.bias,
             "Added to columns, (n,), or rows, (m, 1).");
  FileOption(command, "--a-scale X", o.values.a_scale,
             "Factors of A: a number, or a FILE of (m,), or of blocks.");
  FileOption(command, "--b-scale X", o.values.b_scale,
             "Of B: a number, or a FILE of (n,), or of blocks.");
  FileOption(command, "--d-scale,--out-scale X", o.values.d_scale,
             "Factor of D before it is rounded.");
  FileOption(command, "--aux,--pre-activation D", o.auxiliary,
             "Where what the activation is applied to goes, as D.");
  FileOption(command, "--amax FILE", o.amax,
             "Where the greatest magnitude before --d-scale goes.");
  command.Text("--device NAME", o.device,
               "Such as cuda:0. Default: the daemon's choice.");
}

const char kProductDetails[] =
    "What goes together is listed by gemmctl capabilities. Files hold f4, "
    "f2, i4, i1,\n"
    "u1, b1 (bits, packed on the way), or bfloat16 as V2; V1 is e4m3 or "
    "e5m2, as\n"
    "--dtype says, and so are u1 files then, u2 files bf16. With --dtype or "
    "--b-type\n"
    "s4, i1 files hold elements of four bits, -8 to 7, a byte each, and with "
    "u4 u1\n"
    "files 0 to 15. Of f4 files that --dtype converts, finite elements beyond "
    "e4m3 or\n"
    "e5m2 become the greatest value, and infinity becomes NaN in e4m3. "
    "Dimensions before the last two are a batch; one matrix "
    "may serve\n"
    "all of the other's. C is of D's type or f4. \"-\" is standard input or "
    "output. In\n"
    "numpy, np.load(D).view(ml_dtypes.bfloat16) reads results that are "
    "stored as V2\n"
    "(bf16) or V1 (e4m3, e5m2). A tensor may be sparse or quantized "
    "(gemmctl\n"
    "tensor upload --quantized).\n\n"
    "  x = a_scale * b_scale * alpha * A B + beta * C + bias    (--aux)\n"
    "  D = d_scale * act(x)    (--amax: greatest |act(x)|)\n\n"
    "The values are f4 files; blocks are 1 x 128 of A, (m, k/128), and 128 x "
    "128 of\nB, (k/128, n/128), both or neither.";

absl::Status CheckProduct(const MatmulOptions& options) {
  if (options.beta != 0 && options.c.empty()) {
    return absl::InvalidArgumentError("--beta needs --c FILE");
  }
  return absl::OkStatus();
}

absl::Status CheckFiles(absl::Span<const MatmulOptions> products) {
  int from_standard = 0;
  std::vector<std::string> written;
  for (const MatmulOptions& product : products) {
    for (const std::string& name : Inputs(product)) {
      from_standard += name == kStandard;
    }
    for (const std::string& name : OutputNames(product)) {
      written.push_back(name);
    }
  }
  RETURN_IF_ERROR(CheckOutputs(written));
  if (from_standard > 1) {
    return absl::InvalidArgumentError(
        "only one file can come from standard input");
  }
  return absl::OkStatus();
}

bool UsesStandardOutput(const MatmulOptions& options) {
  return absl::c_linear_search(OutputNames(options), kStandard);
}

}  // namespace gemmd::gemmctl
