// Client::Matmul: the request is the serialised header followed by the
// operands' own memory as slices; results are copied once, out of the slices in
// which they arrive.
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "clients/cpp/client.h"
#include "clients/cpp/loan.h"
#include "clients/cpp/slice_reader.h"
#include "clients/cpp/unary.h"
#include "jit/base/status.h"

namespace gemmd::client {
namespace {

constexpr char kMethod[] = "/gemmd.v1.MatmulService/Matmul";

// An input that the request asks for.
struct Input {
  int field;  // Of MatmulRequest.
  const Operand& operand;
  v1::Order order;
  v1::Source& source;
};

// Of which the sources are in `header`, to be filled in.
std::vector<Input> Inputs(const Product& product, v1::MatmulHeader& header) {
  using Request = v1::MatmulRequest;
  const v1::Problem& problem = product.problem;
  const v1::Epilogue& epilogue = problem.epilogue();
  std::vector<Input> inputs = {{Request::kAFieldNumber, product.a,
                                problem.a_order(), *header.mutable_a()},
                               {Request::kBFieldNumber, product.b,
                                problem.b_order(), *header.mutable_b()}};
  if (problem.beta() != 0) {
    inputs.push_back({Request::kCFieldNumber, product.c, problem.d_order(),
                      *header.mutable_c()});
  }
  const auto add = [&](bool asked, int field, const Operand& operand,
                       v1::Source* (v1::MatmulHeader::*source)()) {
    if (!asked) return;
    inputs.push_back(
        {field, operand, v1::ORDER_ROW_MAJOR, *(header.*source)()});
  };
  add(epilogue.bias() != 0, Request::kBiasFieldNumber, product.bias,
      &v1::MatmulHeader::mutable_bias);
  add(epilogue.a_scale() != 0, Request::kAScaleFieldNumber, product.a_scale,
      &v1::MatmulHeader::mutable_a_scale);
  add(epilogue.b_scale() != 0, Request::kBScaleFieldNumber, product.b_scale,
      &v1::MatmulHeader::mutable_b_scale);
  add(epilogue.d_scale(), Request::kDScaleFieldNumber, product.d_scale,
      &v1::MatmulHeader::mutable_d_scale);
  return inputs;
}

void SetSource(const Operand& operand, v1::Order order, v1::Source& source) {
  if (!operand.tensor.empty()) {
    source.set_tensor(operand.tensor);
    return;
  }
  v1::Layout& layout = *source.mutable_inline_();
  layout.set_order(order);
  layout.set_leading_dimension(operand.leading_dimension);
  if (operand.batch_stride) layout.set_batch_stride(*operand.batch_stride);
}

void SetDestination(const Destination& to, v1::Order order,
                    v1::Destination& destination) {
  if (!to.tensor.empty()) {
    destination.set_tensor(to.tensor);
    return;
  }
  v1::Layout& layout = *destination.mutable_inline_();
  layout.set_order(order);
  layout.set_leading_dimension(to.leading_dimension);
}

grpc::ByteBuffer Encode(const Product& product, Loan& loan) {
  const v1::Problem& problem = product.problem;
  v1::MatmulHeader header;
  *header.mutable_problem() = problem;
  header.set_device(product.device);
  SetDestination(product.d, problem.d_order(), *header.mutable_d());
  if (problem.epilogue().auxiliary()) {
    SetDestination(product.auxiliary, problem.d_order(),
                   *header.mutable_auxiliary());
  }
  std::vector<grpc::Slice> slices(1);  // The header comes first.
  for (const Input& input : Inputs(product, header)) {
    SetSource(input.operand, input.order, input.source);
    const absl::Span<const char> bytes = input.operand.bytes;
    if (!input.operand.tensor.empty() || bytes.empty()) continue;
    slices.emplace_back(FieldPrefix(input.field, bytes.size()));
    slices.push_back(loan.Lend(bytes));
  }
  const std::string head = header.SerializeAsString();
  slices[0] =
      FieldPrefix(v1::MatmulRequest::kHeaderFieldNumber, head.size()) + head;
  return grpc::ByteBuffer(slices.data(), slices.size());
}

// A result that may come, and what becomes of it.
struct Output {
  int field;  // Of MatmulResponse.
  absl::string_view name;
  const Destination& to;
  std::string& otherwise;  // Where `to` has no bytes.
  bool came = false;
};

absl::Status Take(uint64_t length, SliceReader& reader, Output& output) {
  output.came = true;
  const absl::Span<char> bytes = output.to.bytes;
  if (bytes.data() == nullptr) {
    output.otherwise = reader.Read(length);
    return absl::OkStatus();
  }
  if (length != bytes.size()) {
    return absl::InternalError(absl::StrCat("the daemon sent ", length,
                                            " bytes of ", output.name,
                                            "; the buffer has ", bytes.size()));
  }
  reader.Read(bytes);
  return absl::OkStatus();
}

absl::Status ReadFields(SliceReader& reader, absl::Span<Output> outputs,
                        Result& result) {
  using Response = v1::MatmulResponse;
  while (!reader.done()) {
    ASSIGN_OR_RETURN(const SliceReader::Field field, reader.ReadField());
    const auto output = absl::c_find_if(outputs, [&](const Output& one) {
      return field.delimited && one.field == field.number;
    });
    if (output != outputs.end()) {
      RETURN_IF_ERROR(Take(field.length, reader, *output));
    } else if (field.fixed32 && field.number == Response::kAmaxFieldNumber) {
      result.amax = absl::bit_cast<float>(*field.fixed32);
    } else if (field.delimited &&
               field.number == Response::kExecutionFieldNumber) {
      if (!result.execution.ParseFromString(reader.Read(field.length))) {
        return absl::InternalError("the daemon sent a malformed execution");
      }
    } else {
      reader.Skip(field.length);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Result> Decode(const grpc::ByteBuffer& response,
                              const Product& product) {
  using Response = v1::MatmulResponse;
  Result result;
  ASSIGN_OR_RETURN(SliceReader reader, SliceReader::Create(response));
  std::vector<Output> outputs = {
      {Response::kDFieldNumber, "D", product.d, result.d}};
  if (product.problem.epilogue().auxiliary()) {
    outputs.push_back({Response::kAuxiliaryFieldNumber, "the auxiliary result",
                       product.auxiliary, result.auxiliary});
  }
  RETURN_IF_ERROR(ReadFields(reader, absl::MakeSpan(outputs), result));
  if (product.problem.epilogue().amax() && !result.amax) {
    return absl::InternalError("the daemon sent no amax");
  }
  for (const Output& output : outputs) {
    if (!output.came && output.to.tensor.empty() && !output.to.bytes.empty()) {
      return absl::InternalError(
          absl::StrCat("the daemon sent nothing of ", output.name));
    }
  }
  return result;
}

}  // namespace

absl::StatusOr<Result> Client::Matmul(const Product& product) {
  Loan loan;  // Outlives the context, whose end lets the transport go.
  grpc::ClientContext context;
  Prepare(context, product.timeout);
  grpc::ByteBuffer request = Encode(product, loan);
  Announce(context, request.Length());
  absl::StatusOr<grpc::ByteBuffer> response =
      CallRaw(channel_, kMethod, context, request);
  if (!response.ok()) return response.status();
  return Decode(*response, product);
}

}  // namespace gemmd::client
