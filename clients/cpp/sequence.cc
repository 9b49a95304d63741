// Client::Run: steps are the headers of products, whose operands that are
// neither tensors nor results of steps become operands of the call.
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "clients/cpp/client.h"
#include "clients/cpp/loan.h"
#include "clients/cpp/matmul_header.h"
#include "clients/cpp/matmul_response.h"
#include "clients/cpp/unary.h"
#include "jit/base/status.h"

namespace gemmd::client {
namespace {

using Request = v1::SequenceRequest;

constexpr char kMethod[] = "/gemmd.v1.MatmulService/Sequence";

// Operands of the call, each once.
class Operands {
 public:
  // Their names are none of `taken`.
  explicit Operands(std::set<std::string> taken) : taken_(std::move(taken)) {}

  // `source` of a step, which says how `operand` lies, becomes its name.
  void Name(const v1::Problem& problem, const Input& input,
            const Operand& operand, v1::Source& source) {
    Sent sent = {.bytes = operand.bytes};
    if (source.has_region()) {
      *sent.head.mutable_region() = source.region();
    } else {
      *sent.head.mutable_layout() = source.inline_();
    }
    // Steps that read one must agree on its sizes. Vectors are told apart by
    // what they are of a product.
    auto [name, is_new] = names_.try_emplace(
        {operand.bytes.data(), operand.bytes.size(),
         sent.head.SerializeAsString(),
         IsMatrix(input) ? AsTensor(problem, input, operand).SerializeAsString()
                         : absl::StrCat(input.field)});
    if (is_new) {
      name->second = NewName();
      sent.head.set_name(name->second);
      all_.push_back(std::move(sent));
    }
    source.set_name(name->second);
  }

  // As fields of a SequenceRequest; `loan` lends their bytes.
  void AppendTo(std::vector<grpc::Slice>& slices, Loan& loan) const {
    for (const auto& [head, bytes] : all_) {
      std::string front = head.SerializeAsString();
      if (head.has_layout()) {
        front +=
            FieldPrefix(v1::SequenceOperand::kDataFieldNumber, bytes.size());
      }
      slices.emplace_back(FieldPrefix(Request::kOperandsFieldNumber,
                                      front.size() + bytes.size()) +
                          front);
      if (!bytes.empty()) slices.push_back(loan.Lend(bytes));
    }
  }

 private:
  struct Sent {
    v1::SequenceOperand head;
    absl::Span<const char> bytes;
  };
  // Where it is, how it lies, and what it is.
  using Key = std::tuple<const char*, size_t, std::string, std::string>;

  std::string NewName() {
    std::string name;
    do {
      name = absl::StrCat("operand ", next_++);
    } while (taken_.count(name) > 0);
    return name;
  }

  const std::set<std::string> taken_;
  int next_ = 0;
  std::vector<Sent> all_;
  std::map<Key, std::string> names_;
};

// Names that the caller gave.
std::set<std::string> NamesOf(const Sequence& sequence) {
  std::set<std::string> names;
  for (const Product& step : sequence.steps) {
    for (const auto result : {&Product::d, &Product::auxiliary}) {
      names.insert((step.*result).name);
    }
    for (const Input& input : Inputs(step.problem)) {
      names.insert((step.*input.operand).name);
    }
  }
  return names;
}

std::vector<grpc::Slice> Encode(const Sequence& sequence, Loan& loan) {
  Operands operands(NamesOf(sequence));
  std::string front;
  const auto append = [&](int field, const std::string& value) {
    front += FieldPrefix(field, value.size()) + value;
  };
  for (const Product& step : sequence.steps) {
    v1::MatmulHeader header = ToOutgoing(step).header;
    for (const Input& input : Inputs(step.problem)) {
      const Operand& operand = step.*input.operand;
      if (!operand.tensor.empty() || !operand.name.empty()) continue;
      operands.Name(step.problem, input, operand, *(header.*input.source)());
    }
    append(Request::kStepsFieldNumber, header.SerializeAsString());
  }
  if (!sequence.device.empty()) {
    append(Request::kDeviceFieldNumber, sequence.device);
  }
  std::vector<grpc::Slice> slices = {grpc::Slice(front)};
  operands.AppendTo(slices, loan);
  return slices;
}

}  // namespace

absl::StatusOr<SequenceResult> Client::Run(const Sequence& sequence) {
  Loan loan;  // Outlives the context, whose end lets the transport go.
  grpc::ClientContext context;
  Prepare(context, sequence.timeout);
  SetKey(context, sequence.idempotency_key);
  std::vector<grpc::Slice> slices = Encode(sequence, loan);
  grpc::ByteBuffer request(slices.data(), slices.size());
  slices.clear();  // The call alone keeps what was lent.
  Announce(context, request.Length(), options_.checksums);
  ASSIGN_OR_RETURN(
      const grpc::ByteBuffer response,
      CallRaw(channel_, kMethod, context, request, options_.checksums));
  SequenceResult result;
  ASSIGN_OR_RETURN(
      result.steps,
      ReadResponses(
          response, v1::SequenceResponse::kStepsFieldNumber, "steps",
          sequence.steps,
          [&](const SliceReader::Field& field, SliceReader& reader) {
            const std::string bytes = reader.Read(field.length);
            if (field.number != v1::SequenceResponse::kPhasesFieldNumber ||
                result.phases.ParseFromString(bytes)) {
              return absl::OkStatus();
            }
            return absl::InternalError("the daemon sent malformed phases");
          }));
  return result;
}

}  // namespace gemmd::client
