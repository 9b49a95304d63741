#include "clients/cpp/matmul_header.h"

#include "absl/algorithm/container.h"

namespace gemmd::client {
namespace {

// Of weights, which one of A and B may be.
bool IsQuantized(const v1::Problem& problem, v1::DataType type,
                 v1::DataType other) {
  return problem.has_quantization() && BitsOf(type) < BitsOf(other);
}

// The layout of a Source or Destination that is no tensor.
template <typename End, typename Place>
v1::Layout& LayoutOf(const Place& place, End& end) {
  if (place.region.empty()) return *end.mutable_inline_();
  v1::RegionPart& part = *end.mutable_region();
  part.set_region(place.region);
  part.set_offset(place.offset);
  return *part.mutable_layout();
}

void SetSource(const Operand& operand, v1::Order order, v1::Source& source) {
  source.set_transposed(operand.transposed);
  if (!operand.tensor.empty()) {
    source.set_tensor(operand.tensor);
    return;
  }
  if (!operand.name.empty()) {
    source.set_name(operand.name);
    return;
  }
  v1::Layout& layout = LayoutOf(operand, source);
  layout.set_order(order);
  layout.set_leading_dimension(operand.leading_dimension);
  if (operand.batch_stride) layout.set_batch_stride(*operand.batch_stride);
}

void SetDestination(const Destination& to, v1::Order order,
                    v1::Destination& destination) {
  if (!to.name.empty()) destination.set_name(to.name);
  if (!to.tensor.empty()) {
    destination.set_tensor(to.tensor);
    return;
  }
  if (to.region.empty() && !IsReturned(to)) return;
  v1::Layout& layout = LayoutOf(to, destination);
  layout.set_order(order);
  layout.set_leading_dimension(to.leading_dimension);
}

bool Overlaps(const Input& input, const Operand& operand, int64_t batch) {
  const int64_t stride = operand.batch_stride.value_or(0);
  const auto bytes = static_cast<int64_t>(operand.bytes.size());
  if (stride <= 0 || batch <= 1 || stride > bytes * 8) return false;
  // Strides up to the last matrix, and that matrix, are all there is: it is
  // longer than a stride.
  const bool counts_bytes = input.is_sparse || input.is_quantized;
  const int bits = counts_bytes ? 8 : BitsOf(input.type);
  return stride * bits / 8 < (bytes + batch - 1) / batch;
}

}  // namespace

int BitsOf(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_F32:
    case v1::DATA_TYPE_S32:
      return 32;
    case v1::DATA_TYPE_F16:
    case v1::DATA_TYPE_BF16:
      return 16;
    case v1::DATA_TYPE_S4:
    case v1::DATA_TYPE_U4:
      return 4;
    case v1::DATA_TYPE_B1:
      return 1;
    default:
      return 8;
  }
}

absl::InlinedVector<Input, kMostInputs> Inputs(const v1::Problem& problem) {
  using Request = v1::MatmulRequest;
  using Header = v1::MatmulHeader;
  const v1::Epilogue& epilogue = problem.epilogue();
  absl::InlinedVector<Input, kMostInputs> inputs = {
      {Request::kAFieldNumber, &Product::a, problem.a_type(), problem.a_order(),
       &Header::mutable_a, problem.sparsity() != v1::SPARSITY_UNSPECIFIED,
       IsQuantized(problem, problem.a_type(), problem.b_type())},
      {Request::kBFieldNumber, &Product::b, problem.b_type(), problem.b_order(),
       &Header::mutable_b, problem.b_sparsity() != v1::SPARSITY_UNSPECIFIED,
       IsQuantized(problem, problem.b_type(), problem.a_type())}};
  if (problem.beta() != 0) {
    const v1::DataType type = problem.c_type() == v1::DATA_TYPE_UNSPECIFIED
                                  ? ResultType(problem)
                                  : problem.c_type();
    inputs.push_back({Request::kCFieldNumber, &Product::c, type,
                      problem.d_order(), &Header::mutable_c});
  }
  const auto add = [&](bool asked, int field, Operand Product::*operand,
                       v1::Source* (Header::*source)()) {
    if (!asked) return;
    inputs.push_back(
        {field, operand, v1::DATA_TYPE_F32, v1::ORDER_ROW_MAJOR, source});
  };
  add(epilogue.bias() != 0, Request::kBiasFieldNumber, &Product::bias,
      &Header::mutable_bias);
  add(epilogue.a_scale() != 0, Request::kAScaleFieldNumber, &Product::a_scale,
      &Header::mutable_a_scale);
  add(epilogue.b_scale() != 0, Request::kBScaleFieldNumber, &Product::b_scale,
      &Header::mutable_b_scale);
  add(epilogue.d_scale(), Request::kDScaleFieldNumber, &Product::d_scale,
      &Header::mutable_d_scale);
  return inputs;
}

v1::DataType ResultType(const v1::Problem& problem) {
  if (problem.d_type() != v1::DATA_TYPE_UNSPECIFIED) return problem.d_type();
  // That of what weights are multiplied by.
  if (BitsOf(problem.a_type()) < 16 && BitsOf(problem.b_type()) == 16) {
    return problem.b_type();
  }
  switch (problem.a_type()) {
    case v1::DATA_TYPE_S8:
    case v1::DATA_TYPE_U8:
    case v1::DATA_TYPE_B1:
      return v1::DATA_TYPE_S32;
    default:
      return problem.a_type();
  }
}

void SetHeader(const Product& product, v1::MatmulHeader& header) {
  const v1::Problem& problem = product.problem;
  *header.mutable_problem() = problem;
  // An arena makes a string of an empty one, too.
  if (!product.device.empty()) header.set_device(product.device);
  SetDestination(product.d, problem.d_order(), *header.mutable_d());
  if (problem.epilogue().auxiliary()) {
    SetDestination(product.auxiliary, problem.d_order(),
                   *header.mutable_auxiliary());
  }
  for (const Input& input : Inputs(problem)) {
    SetSource(product.*input.operand, input.order, *(header.*input.source)());
  }
}

OutgoingProduct ToOutgoing(const Product& product) {
  OutgoingProduct outgoing;
  SetHeader(product, outgoing.header);
  for (const Input& input : Inputs(product.problem)) {
    const Operand& operand = product.*input.operand;
    if (IsInline(operand)) {
      outgoing.operands.push_back({input.field, operand.bytes});
    }
  }
  return outgoing;
}

v1::CreateTensorRequest AsTensor(const v1::Problem& problem, const Input& input,
                                 const Operand& operand) {
  const bool is_a = input.operand == &Product::a;
  const bool is_b = input.operand == &Product::b;
  v1::CreateTensorRequest request;
  request.set_dtype(input.type);
  request.set_order(input.order);
  request.set_rows(is_b ? problem.k() : problem.m());
  request.set_columns(is_a ? problem.k() : problem.n());
  const bool is_single = operand.batch_stride == 0 && (is_a || is_b);
  request.set_count(is_single ? 1 : BatchOf(problem));
  if (input.is_sparse) request.set_sparsity(v1::SPARSITY_2_4);
  if (input.is_quantized) {
    *request.mutable_quantization() = problem.quantization();
  }
  return request;
}

uint64_t ResultBytes(const v1::Problem& problem) {
  const int64_t batch = BatchOf(problem);
  // Sizes that are no sizes are the daemon's to refuse.
  if (problem.m() <= 0 || problem.n() <= 0 || batch <= 0) return 0;
  return static_cast<uint64_t>(problem.m()) * problem.n() * batch *
         BitsOf(ResultType(problem)) / 8;
}

uint64_t BytesTo(const Destination& destination, const v1::Problem& problem) {
  if (!IsReturned(destination)) return 0;
  return destination.bytes.data() == nullptr ? ResultBytes(problem)
                                             : destination.bytes.size();
}

uint64_t TravellingBytes(const Product& product) {
  const v1::Problem& problem = product.problem;
  uint64_t bytes = BytesTo(product.d, problem);
  if (problem.epilogue().auxiliary()) {
    bytes += BytesTo(product.auxiliary, problem);
  }
  for (const Input& input : Inputs(problem)) {
    const Operand& operand = product.*input.operand;
    if (IsInline(operand)) bytes += operand.bytes.size();
  }
  return bytes;
}

bool Streams(const Product& product, uint64_t limit) {
  if (TravellingBytes(product) <= limit) return false;
  const int64_t batch = BatchOf(product.problem);
  return absl::c_none_of(Inputs(product.problem), [&](const Input& input) {
    const Operand& operand = product.*input.operand;
    return IsInline(operand) && Overlaps(input, operand, batch);
  });
}

}  // namespace gemmd::client
