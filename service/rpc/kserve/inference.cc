#include "service/rpc/kserve/inference.h"

#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "jit/base/status.h"
#include "proto/convert/problem.h"
#include "service/rpc/kserve/datatype.h"
#include "service/rpc/kserve/model_view.h"
#include "service/rpc/kserve/parameters.h"
#include "service/rpc/kserve/repeat.h"
#include "service/rpc/kserve/text.h"

namespace gemmd::rpc::kserve {
namespace {

constexpr char kBoundB[] = "model.b";
constexpr char kBoundBias[] = "model.bias";

// The inputs of one request, by name.
class Inputs {
 public:
  Inputs(InferRequest& request, const models::Model& model)
      : request_(request), model_(model) {}

  Input* Find(absl::string_view name) const {
    const auto found = absl::c_find_if(
        request_.inputs, [&](const Input& i) { return i.name == name; });
    return found == request_.inputs.end() ? nullptr : &*found;
  }

  absl::StatusOr<Input*> Get(absl::string_view name) const {
    if (Input* const input = Find(name)) return input;
    return absl::InvalidArgumentError(absl::StrCat(
        "input '", name, "' is missing for model '", model_.spec().name, "'"));
  }

  absl::Status CheckNames(absl::Span<const char* const> allowed) const {
    for (const Input& input : request_.inputs) {
      if (absl::c_linear_search(allowed, input.name)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "unexpected inference input ", Quoted(input.name), " for model '",
          model_.spec().name, "'; allowed: ", absl::StrJoin(allowed, ", ")));
    }
    return absl::OkStatus();
  }

 private:
  InferRequest& request_;
  const models::Model& model_;
};

absl::Status CheckOutputs(const inference::ModelInferRequest& header) {
  bool asked = false;
  for (const auto& output : header.outputs()) {
    if (output.name() != kD || asked) {
      return absl::InvalidArgumentError(absl::StrCat(
          "unexpected inference output ", Quoted(output.name()), " for model ",
          Quoted(header.model_name()), "; allowed: 'D', once"));
    }
    asked = true;
    for (const auto& [name, value] : output.parameters()) {
      return absl::UnimplementedError(
          absl::StrCat("parameter ", Quoted(name),
                       " of output 'D' is not served; allowed: none"));
    }
  }
  return absl::OkStatus();
}

// Values of the epilogue: one, or one for each row of A or column of B.
struct Line {
  const char* name;
  jit::Extent each;
  int64_t size;
};

absl::Status WrongValues(const Input& input, absl::string_view allowed) {
  return absl::InvalidArgumentError(absl::StrCat(
      "unexpected ", NameOf(input.type), " shape ", Shown(input.shape),
      " for input '", input.name, "'; allowed: FP32 ", allowed));
}

absl::StatusOr<jit::Extent> ExtentOf(const Input& input, const Line& line,
                                     const Dimensions& full) {
  if (input.type == jit::DataType::kF32) {
    if (input.elements == 1) return jit::Extent::kTensor;
    if (input.shape == Dimensions{line.size} || input.shape == full) {
      return line.each;
    }
  }
  return WrongValues(
      input, absl::StrCat("[1], ", Shown({line.size}), " or ", Shown(full)));
}

// As numpy adds it to D: a value a column, or a value a row. It has no
// dimension that D lacks, where a vector was multiplied.
absl::StatusOr<jit::Extent> BiasExtent(const Input& input, const Matrices& a,
                                       const Matrices& b) {
  const Dimensions line = {b.columns};
  const Dimensions per_column = ShapeOf({{}, 1, b.columns}, a, b);
  const Dimensions per_row = ShapeOf({{}, a.rows, 1}, a, b);
  if (input.type == jit::DataType::kF32) {
    // One value for one column may be a number, too.
    if (input.shape == line || input.shape == per_column ||
        (b.columns == 1 && input.elements == 1)) {
      return jit::Extent::kColumn;
    }
    if (input.shape == per_row) return jit::Extent::kRow;
  }
  return WrongValues(input, per_row == line ? Shown(line)
                                            : absl::StrCat(Shown(line), " or ",
                                                           Shown(per_row)));
}

// The bytes of an operand, as many times as the product needs its matrices.
absl::Status SetOperand(Input& input, const Matrices& operand,
                        const Matrices& product, int64_t max_bytes,
                        v1::Source& source, Pieces& pieces) {
  switch (HowServes(operand, product)) {
    case Serves::kEach:
      break;
    case Serves::kAll:
      source.mutable_inline_()->set_batch_stride(0);
      break;
    case Serves::kRepeated: {
      ASSIGN_OR_RETURN(pieces, Repeat(input, operand, product, max_bytes));
      return absl::OkStatus();
    }
  }
  pieces = std::move(input.data);
  return absl::OkStatus();
}

class Builder {
 public:
  Builder(InferRequest& request, const models::Model& model, int64_t max_bytes)
      : request_(request),
        model_(model),
        inputs_(request, model),
        max_bytes_(max_bytes) {}

  absl::StatusOr<Inference> Build() {
    RETURN_IF_ERROR(CheckOutputs(request_.header));
    ASSIGN_OR_RETURN(a_input_, inputs_.Get(kA));
    ASSIGN_OR_RETURN(a_, AsA(a_input_->shape));
    if (model_.weights().b == nullptr) {
      RETURN_IF_ERROR(SetProblem());
    } else {
      RETURN_IF_ERROR(SetModel());
    }
    ASSIGN_OR_RETURN(d_, ProductOf(a_, b_));
    problem_.m = d_.rows;
    problem_.n = d_.columns;
    problem_.k = a_.columns;
    problem_.batch = d_.count();
    inference_.shape = ShapeOf(d_, a_, b_);
    RETURN_IF_ERROR(SetOperands());
    if (model_.weights().bias == nullptr) RETURN_IF_ERROR(SetBias());
    inference_.repeated_bytes = RepeatedBytes();
    *header().mutable_problem() = convert::ToWire(problem_);
    inference_.type = problem_.d_type;
    return std::move(inference_);
  }

 private:
  int64_t RepeatedBytes() const {
    const auto bytes = [this](const Input* input, const Matrices& operand,
                              const Pieces& pieces) -> int64_t {
      const bool repeated =
          input != nullptr && HowServes(operand, d_) == Serves::kRepeated;
      return repeated ? pieces.size() * sizeof(Piece) : 0;
    };
    return bytes(a_input_, a_, inference_.fields.a) +
           bytes(b_input_, b_, inference_.fields.b);
  }
  v1::MatmulHeader& header() { return inference_.fields.header; }

  // Of "matmul".
  absl::Status SetProblem() {
    RETURN_IF_ERROR(inputs_.CheckNames({kA, kB, kC, kBias, kAScale, kBScale}));
    ASSIGN_OR_RETURN(b_input_, inputs_.Get(kB));
    ASSIGN_OR_RETURN(b_, AsB(b_input_->shape));
    c_input_ = inputs_.Find(kC);
    problem_.a_type = a_input_->type;
    problem_.b_type = b_input_->type;
    // As in the Python client C says what D is, unless out_dtype does.
    problem_.d_type = c_input_ == nullptr
                          ? jit::DefaultOutput(problem_.a_type, problem_.b_type)
                          : c_input_->type;
    problem_.accumulator =
        jit::DefaultAccumulator(problem_.a_type, problem_.b_type);
    problem_.beta = c_input_ == nullptr ? 0.0f : 1.0f;
    RETURN_IF_ERROR(Apply(request_.header.parameters(), problem_));
    problem_.c_type = c_input_ == nullptr ? problem_.d_type : c_input_->type;
    if (c_input_ == nullptr && problem_.reads_c()) {
      return inputs_.Get(kC).status();
    }
    return absl::OkStatus();
  }

  // Of a model with weights.
  absl::Status SetModel() {
    const models::Weights& weights = model_.weights();
    problem_ = model_.spec().problem;
    RETURN_IF_ERROR(TakesBias(model_) ? inputs_.CheckNames({kA, kBias})
                                      : inputs_.CheckNames({kA}));
    RETURN_IF_ERROR(CheckNone(request_.header.parameters(),
                              absl::StrCat("model '", model_.spec().name,
                                           "', whose product is fixed")));
    if (a_input_->type != problem_.a_type) {
      return absl::InvalidArgumentError(
          absl::StrCat("inference input data-type is '", NameOf(a_input_->type),
                       "', but input 'A' of model '", model_.spec().name,
                       "' expects '", NameOf(problem_.a_type), "'"));
    }
    b_ = {problem_.batch == 1 ? Dimensions{} : Dimensions{problem_.batch},
          problem_.k, problem_.n};
    const auto bind = [&](const char* name,
                          const std::shared_ptr<engine::Tensor>& tensor,
                          v1::Source& source) {
      source.set_tensor(name);
      inference_.bound[name] = tensor;
    };
    bind(kBoundB, weights.b, *header().mutable_b());
    if (weights.bias != nullptr) {
      bind(kBoundBias, weights.bias, *header().mutable_bias());
    }
    return absl::OkStatus();
  }

  absl::Status SetOperands() {
    MatmulFields& fields = inference_.fields;
    RETURN_IF_ERROR(SetOperand(*a_input_, a_, d_, max_bytes_,
                               *header().mutable_a(), fields.a));
    if (b_input_ != nullptr) {
      RETURN_IF_ERROR(SetOperand(*b_input_, b_, d_, max_bytes_,
                                 *header().mutable_b(), fields.b));
      RETURN_IF_ERROR(SetScale({kAScale, jit::Extent::kRow, d_.rows},
                               {d_.rows, 1}, problem_.epilogue.a_scale,
                               fields.a_scale));
      RETURN_IF_ERROR(SetScale({kBScale, jit::Extent::kColumn, d_.columns},
                               {1, d_.columns}, problem_.epilogue.b_scale,
                               fields.b_scale));
    } else if (HowServes(b_, d_) == Serves::kRepeated) {
      return absl::InvalidArgumentError(
          absl::StrCat("unexpected shape ", Shown(a_input_->shape),
                       " for input 'A' of model '", model_.spec().name,
                       "'; allowed: a batch of ", b_.count()));
    }
    if (c_input_ == nullptr) return absl::OkStatus();
    if (c_input_->shape != inference_.shape) {
      return absl::InvalidArgumentError(
          absl::StrCat("unexpected shape ", Shown(c_input_->shape),
                       " for input 'C'; allowed: ", Shown(inference_.shape),
                       ", the shape of D"));
    }
    fields.c = std::move(c_input_->data);
    return absl::OkStatus();
  }

  absl::Status SetScale(const Line& line, const Dimensions& full,
                        jit::Extent& extent, Pieces& pieces) {
    Input* const input = inputs_.Find(line.name);
    if (input == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(extent, ExtentOf(*input, line, full));
    pieces = std::move(input->data);
    return absl::OkStatus();
  }

  absl::Status SetBias() {
    Input* const input = inputs_.Find(kBias);
    if (input == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(problem_.epilogue.bias, BiasExtent(*input, a_, b_));
    inference_.fields.bias = std::move(input->data);
    return absl::OkStatus();
  }

  InferRequest& request_;
  const models::Model& model_;
  const Inputs inputs_;
  const int64_t max_bytes_;
  Input* a_input_ = nullptr;
  Input* b_input_ = nullptr;  // Null: it is the model's.
  Input* c_input_ = nullptr;  // Null: there is none.
  Matrices a_;
  Matrices b_;
  Matrices d_;
  jit::Problem problem_;
  Inference inference_;
};

}  // namespace

absl::StatusOr<Inference> ToInference(InferRequest& request,
                                      const models::Model& model,
                                      int64_t max_bytes) {
  return Builder(request, model, max_bytes).Build();
}

}  // namespace gemmd::rpc::kserve
