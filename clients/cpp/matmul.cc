// Client::Matmul: the request is the serialised header followed by the
// operands' own memory as slices; D is copied once, out of the slices in which
// it arrives.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/cpp/client.h"
#include "clients/cpp/loan.h"
#include "clients/cpp/slice_reader.h"
#include "clients/cpp/unary.h"
#include "jit/base/status.h"

namespace gemmd::client {
namespace {

constexpr char kMethod[] = "/gemmd.v1.MatmulService/Matmul";

// Fields of MatmulRequest and MatmulResponse.
constexpr int kHeaderField = 1;
constexpr int kFirstOperandField = 2;
constexpr int kExecutionField = 1;
constexpr int kResultField = 2;

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

v1::MatmulHeader MakeHeader(const Product& product) {
  v1::MatmulHeader header;
  const v1::Problem& problem = product.problem;
  *header.mutable_problem() = problem;
  SetSource(product.a, problem.a_order(), *header.mutable_a());
  SetSource(product.b, problem.b_order(), *header.mutable_b());
  if (problem.beta() != 0) {
    SetSource(product.c, problem.d_order(), *header.mutable_c());
  }
  if (!product.d.tensor.empty()) {
    header.mutable_d()->set_tensor(product.d.tensor);
  } else {
    v1::Layout& layout = *header.mutable_d()->mutable_inline_();
    layout.set_order(problem.d_order());
    layout.set_leading_dimension(product.d.leading_dimension);
  }
  header.set_device(product.device);
  return header;
}

grpc::ByteBuffer Encode(const Product& product, Loan& loan) {
  std::vector<grpc::Slice> slices;
  const std::string header = MakeHeader(product).SerializeAsString();
  slices.emplace_back(FieldPrefix(kHeaderField, header.size()) + header);
  const bool reads_c = product.problem.beta() != 0;
  int field = kFirstOperandField;
  for (const Operand* operand : {&product.a, &product.b, &product.c}) {
    const bool sent = operand->tensor.empty() && !operand->bytes.empty() &&
                      (operand != &product.c || reads_c);
    if (sent) {
      slices.emplace_back(FieldPrefix(field, operand->bytes.size()));
      slices.push_back(loan.Lend(operand->bytes));
    }
    ++field;
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::Status TakeD(const Destination& to, uint64_t length, SliceReader& reader,
                   Result& result) {
  if (to.bytes.data() == nullptr) {
    result.d = reader.Read(length);
    return absl::OkStatus();
  }
  if (length != to.bytes.size()) {
    return absl::InternalError(absl::StrCat("the daemon sent ", length,
                                            " bytes of D; the buffer has ",
                                            to.bytes.size()));
  }
  reader.Read(to.bytes);
  return absl::OkStatus();
}

absl::StatusOr<Result> Decode(const grpc::ByteBuffer& response,
                              const Destination& to) {
  Result result;
  bool has_d = false;
  ASSIGN_OR_RETURN(SliceReader reader, SliceReader::Create(response));
  while (!reader.done()) {
    ASSIGN_OR_RETURN(const SliceReader::Field field, reader.ReadField());
    if (field.delimited && field.number == kExecutionField) {
      if (!result.execution.ParseFromString(reader.Read(field.length))) {
        return absl::InternalError("the daemon sent a malformed execution");
      }
    } else if (field.delimited && field.number == kResultField) {
      has_d = true;
      RETURN_IF_ERROR(TakeD(to, field.length, reader, result));
    } else {
      reader.Skip(field.length);
    }
  }
  if (!has_d && to.tensor.empty() && !to.bytes.empty()) {
    return absl::InternalError("the daemon sent no D");
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
  return Decode(*response, product.d);
}

}  // namespace gemmd::client
