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
constexpr char kGroupedMethod[] = "/gemmd.v1.MatmulService/MatmulGrouped";

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

// The fields of a MatmulRequest.
std::vector<grpc::Slice> Encode(const Product& product, Loan& loan) {
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
  return slices;
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

// Of a message after which `rest` bytes are left.
absl::Status ReadFields(SliceReader& reader, uint64_t rest,
                        absl::Span<Output> outputs, Result& result) {
  using Response = v1::MatmulResponse;
  while (reader.remaining() > rest) {
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

// A MatmulResponse after which `rest` bytes are left.
absl::StatusOr<Result> Decode(SliceReader& reader, uint64_t rest,
                              const Product& product) {
  using Response = v1::MatmulResponse;
  Result result;
  std::vector<Output> outputs = {
      {Response::kDFieldNumber, "D", product.d, result.d}};
  if (product.problem.epilogue().auxiliary()) {
    outputs.push_back({Response::kAuxiliaryFieldNumber, "the auxiliary result",
                       product.auxiliary, result.auxiliary});
  }
  RETURN_IF_ERROR(ReadFields(reader, rest, absl::MakeSpan(outputs), result));
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

absl::StatusOr<std::vector<Result>> DecodeGroups(
    SliceReader& reader, absl::Span<const Product> products) {
  std::vector<Result> results;
  while (!reader.done()) {
    ASSIGN_OR_RETURN(const SliceReader::Field field, reader.ReadField());
    if (!field.delimited ||
        field.number != v1::MatmulGroupedResponse::kGroupsFieldNumber) {
      reader.Skip(field.length);
      continue;
    }
    if (results.size() == products.size()) break;
    ASSIGN_OR_RETURN(Result result,
                     Decode(reader, reader.remaining() - field.length,
                            products[results.size()]));
    results.push_back(std::move(result));
  }
  if (reader.done() && results.size() == products.size()) return results;
  return absl::InternalError(absl::StrCat("the daemon did not answer for ",
                                          products.size(), " groups"));
}

}  // namespace

absl::StatusOr<Result> Client::Matmul(const Product& product) {
  Loan loan;  // Outlives the context, whose end lets the transport go.
  grpc::ClientContext context;
  Prepare(context, product.timeout);
  const std::vector<grpc::Slice> slices = Encode(product, loan);
  grpc::ByteBuffer request(slices.data(), slices.size());
  Announce(context, request.Length());
  ASSIGN_OR_RETURN(const grpc::ByteBuffer response,
                   CallRaw(channel_, kMethod, context, request));
  ASSIGN_OR_RETURN(SliceReader reader, SliceReader::Create(response));
  return Decode(reader, 0, product);
}

absl::StatusOr<std::vector<Result>> Client::MatmulGrouped(
    absl::Span<const Product> products, absl::Duration timeout) {
  Loan loan;  // As above.
  grpc::ClientContext context;
  Prepare(context, timeout);
  std::vector<grpc::Slice> slices;
  for (const Product& product : products) {
    std::vector<grpc::Slice> group = Encode(product, loan);
    uint64_t length = 0;
    for (const grpc::Slice& slice : group) length += slice.size();
    slices.emplace_back(
        FieldPrefix(v1::MatmulGroupedRequest::kGroupsFieldNumber, length));
    for (grpc::Slice& slice : group) slices.push_back(std::move(slice));
  }
  grpc::ByteBuffer request(slices.data(), slices.size());
  slices.clear();  // The call alone keeps what was lent.
  Announce(context, request.Length());
  ASSIGN_OR_RETURN(const grpc::ByteBuffer response,
                   CallRaw(channel_, kGroupedMethod, context, request));
  ASSIGN_OR_RETURN(SliceReader reader, SliceReader::Create(response));
  return DecodeGroups(reader, products);
}

}  // namespace gemmd::client
