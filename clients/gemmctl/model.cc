// gemmctl model ...
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/gemmctl/command.h"
#include "clients/gemmctl/convert.h"
#include "clients/gemmctl/operand.h"
#include "clients/gemmctl/problem_options.h"
#include "jit/base/status.h"
#include "proto/convert/problem.h"

namespace gemmd::gemmctl {
namespace {

struct ModelOptions {
  std::string name;
  std::vector<std::string> names;
  std::string b;
  bool transposed = false;
  std::string bias;
  ProblemTypes types;
  ProblemOptions problem;
  double alpha = 1;
  bool shared = false;
  bool json = false;
};

void Print(const v1::Model& model) {
  const v1::Problem& problem = model.problem();
  const std::string batch =
      problem.batch() == 1 ? "" : absl::StrCat(problem.batch(), " x ");
  Show(stdout, "%s: A %s %s* x %d, D %s %s* x %d, on %s, %d bytes%s%s\n",
       model.name(), Name(problem.a_type()), batch, problem.k(),
       Name(problem.d_type()), batch, problem.n(), model.device(),
       model.device_bytes(), model.shared() ? ", shared" : "",
       model.persistent() ? ", persistent" : "");
}

// What a model says of its product: the rest is its tensors'.
absl::StatusOr<v1::Problem> ProblemOf(const ModelOptions& options,
                                      const v1::TensorInfo& b) {
  ProblemTypes types = options.types;
  types.b = b.dtype();
  if (types.a == v1::DATA_TYPE_UNSPECIFIED) {
    types.a = b.has_quantization() ? v1::DATA_TYPE_BF16 : b.dtype();
  }
  ASSIGN_OR_RETURN(const jit::Problem problem,
                   MakeProblem(types, options.problem));
  const v1::Problem all = convert::ToWire(problem);
  v1::Problem said;
  said.set_a_type(all.a_type());
  said.set_d_type(all.d_type());
  said.set_accumulator(all.accumulator());
  said.set_precision(all.precision());
  said.set_saturate(all.saturate());
  said.set_invariant(all.invariant());
  said.set_activation(all.activation());
  said.set_alpha(static_cast<float>(options.alpha));
  return said;
}

int Create(client::Client& client, const ModelOptions& options) {
  GEMMCTL_ASSIGN(const v1::TensorInfo b,
                 client.DescribeTensor(HandleOf(options.b)), Fail);
  v1::CreateModelRequest request;
  GEMMCTL_ASSIGN(*request.mutable_problem(), ProblemOf(options, b), FailUsage);
  request.set_name(options.name);
  request.set_shared(options.shared);
  request.set_b(HandleOf(options.b));
  request.set_b_transposed(options.transposed);
  request.set_bias(HandleOf(options.bias));
  GEMMCTL_ASSIGN(const v1::Model model, client.CreateModel(request), Fail);
  options.json ? PrintJson(model) : Print(model);
  return cli::kExitOk;
}

int List(client::Client& client, const ModelOptions& options) {
  GEMMCTL_ASSIGN(const v1::ListModelsResponse models, client.ListModels(),
                 Fail);
  if (options.json) {
    PrintJson(models);
    return cli::kExitOk;
  }
  for (const v1::Model& model : models.models()) Print(model);
  return cli::kExitOk;
}

int Delete(client::Client& client, const ModelOptions& options) {
  for (const std::string& name : options.names) {
    if (absl::Status gone = client.DeleteModel(name); !gone.ok()) {
      return Fail(gone);
    }
  }
  return cli::kExitOk;
}

void DeclareCreate(cli::Command& command, ModelOptions& options) {
  command.Text("NAME", options.name, "");
  FileOption(command, "--b HANDLE", options.b,
             "The tensor that is B; the model has a copy of it.");
  command.Require("--b");
  command.Switch("--transposed", options.transposed,
                 "B is the tensor's transpose: it is n x k.");
  FileOption(command, "--bias HANDLE", options.bias,
             "Tensor of f32, 1 x n, that is added. Without it requests may "
             "bring one.");
  TypeOption(command, "--a-type TYPE", options.types.a,
             "Of A. Default: that of B; bf16 where B is quantized.");
  TypeOption(command, "--d-type TYPE", options.types.d,
             "Of D. Default: that of A; of integers s32.");
  command.Number("--alpha X", options.alpha, "Factor of A B.");
  options.problem.Declare(command);
  command.Switch("--shared", options.shared,
                 "Everybody may infer with it. Needs the role admin.");
  command.Switch("--json", options.json, "Print JSON.");
}

}  // namespace

void AddModel(cli::Command& program) {
  cli::Command& group =
      program.Subcommand("model",
                         "products with weights under a name, for clients of "
                         "KServe: create, list, "
                         "delete");
  AddWithClient(group, "create", "make a model of resident weights", Create,
                DeclareCreate);
  AddWithClient(group, "list", "the models that one may infer with", List,
                [](cli::Command& command, ModelOptions& options) {
                  command.Switch("--json", options.json, "Print JSON.");
                });
  AddWithClient(group, "delete",
                "delete models and their files; with the role admin, shared "
                "ones of any principal",
                Delete, [](cli::Command& command, ModelOptions& options) {
                  command.Operands("NAME", options.names, 1, "");
                });
}

}  // namespace gemmd::gemmctl
