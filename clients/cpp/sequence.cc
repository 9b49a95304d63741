// Client::Run: steps are the headers of products, whose operands that are
// neither tensors nor results of steps become operands of the call.
#include <google/protobuf/arena.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "clients/cpp/client.h"
#include "clients/cpp/loan.h"
#include "clients/cpp/matmul_header.h"
#include "clients/cpp/matmul_response.h"
#include "clients/cpp/unary.h"
#include "jit/base/status.h"

namespace gemmd::client {
namespace {

using Request = v1::SequenceRequest;
using Response = v1::SequenceResponse;

constexpr char kMethod[] = "/gemmd.v1.MatmulService/Sequence";

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

// Operands of the call, each once.
class Operands {
 public:
  // Of `sequence`, whose own names theirs differ from.
  explicit Operands(const Sequence& sequence) : sequence_(sequence) {}

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

  // As fields of a SequenceRequest.
  void AppendTo(std::vector<SequencePart>& parts) const {
    for (const auto& [head, bytes] : all_) {
      std::string front = head.SerializeAsString();
      if (head.has_layout()) {
        front +=
            FieldPrefix(v1::SequenceOperand::kDataFieldNumber, bytes.size());
      }
      parts.push_back({grpc::Slice(FieldPrefix(Request::kOperandsFieldNumber,
                                               front.size() + bytes.size()) +
                                   front),
                       bytes});
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
    if (!taken_) taken_ = NamesOf(sequence_);
    std::string name;
    do {
      name = absl::StrCat("operand ", next_++);
    } while (taken_->count(name) > 0);
    return name;
  }

  const Sequence& sequence_;
  std::optional<std::set<std::string>> taken_;  // Once there is an operand.
  int next_ = 0;
  std::vector<Sent> all_;
  std::map<Key, std::string> names_;
};

std::vector<SequencePart> Encode(const Sequence& sequence) {
  Operands operands(sequence);
  std::string steps;
  google::protobuf::Arena headers;  // In the end they go together.
  for (const Product& step : sequence.steps) {
    auto& header =
        *google::protobuf::Arena::CreateMessage<v1::MatmulHeader>(&headers);
    SetHeader(step, header);
    for (const Input& input : Inputs(step.problem)) {
      const Operand& operand = step.*input.operand;
      if (!operand.tensor.empty() || !operand.name.empty()) continue;
      operands.Name(step.problem, input, operand, *(header.*input.source)());
    }
    const size_t size = header.ByteSizeLong();
    steps += FieldPrefix(Request::kStepsFieldNumber, size);
    steps.resize(steps.size() + size);
    header.SerializeWithCachedSizesToArray(
        reinterpret_cast<uint8_t*>(steps.data() + steps.size() - size));
  }
  Request rest;
  rest.set_device(sequence.device);
  rest.set_shared_executions(true);
  rest.AppendToString(&steps);
  std::vector<SequencePart> parts = {{grpc::Slice(steps), {}}};
  operands.AppendTo(parts);
  return parts;
}

// What is beside the steps.
absl::Status ReadRest(const SliceReader::Field& field, SliceReader& reader,
                      Response& rest) {
  std::string bytes = FieldPrefix(field.number, field.length);
  bytes += reader.Read(field.length);
  if (rest.MergeFromString(bytes)) return absl::OkStatus();
  return absl::InternalError("the daemon sent malformed phases or executions");
}

// How the steps ran. Daemons that do not share executions send one with each.
absl::Status SetExecutions(absl::Span<Result> steps, Response& rest,
                           SequenceResult& result) {
  if (rest.executions().empty()) {
    for (Result& step : steps) {
      result.step_executions.push_back(result.executions.size());
      result.executions.push_back(std::move(step.execution));
    }
    return absl::OkStatus();
  }
  const int known = rest.executions_size();
  const auto& indices = rest.step_executions();
  if (indices.size() != static_cast<int>(steps.size()) ||
      absl::c_any_of(indices, [&](uint32_t i) {
        return i >= static_cast<uint32_t>(known);
      })) {
    return absl::InternalError(
        absl::StrCat("the daemon sent no execution of each step: it sent ",
                     known, ", and ", indices.size(), " indices"));
  }
  result.step_executions.assign(indices.begin(), indices.end());
  absl::c_move(*rest.mutable_executions(),
               std::back_inserter(result.executions));
  return absl::OkStatus();
}

absl::StatusOr<SequenceResult> ReadResult(const grpc::ByteBuffer& message,
                                          const Sequence& sequence) {
  Response rest;
  ASSIGN_OR_RETURN(
      std::vector<Result> steps,
      ReadResponses(message, Response::kStepsFieldNumber, "steps",
                    sequence.steps,
                    [&](const SliceReader::Field& field, SliceReader& reader) {
                      return ReadRest(field, reader, rest);
                    }));
  SequenceResult result;
  result.steps.reserve(steps.size());
  RETURN_IF_ERROR(SetExecutions(absl::MakeSpan(steps), rest, result));
  absl::c_move(steps, std::back_inserter(result.steps));
  result.phases = std::move(*rest.mutable_phases());
  return result;
}

}  // namespace

EncodedSequence::EncodedSequence(Sequence sequence)
    : sequence_(std::move(sequence)), parts_(Encode(sequence_)) {}

absl::StatusOr<SequenceResult> Client::Run(const Sequence& sequence) {
  return Run(sequence, Encode(sequence), sequence.timeout,
             sequence.idempotency_key);
}

absl::StatusOr<SequenceResult> Client::Run(const EncodedSequence& sequence,
                                           absl::Duration timeout,
                                           const std::string& key) {
  return Run(sequence.sequence_, sequence.parts_, timeout, key);
}

absl::StatusOr<SequenceResult> Client::Run(const Sequence& sequence,
                                           absl::Span<const SequencePart> parts,
                                           absl::Duration timeout,
                                           const std::string& key) {
  Loan loan;  // Outlives the context, whose end lets the transport go.
  grpc::ClientContext context;
  Prepare(context, timeout);
  RETURN_IF_ERROR(SetKey(context, key));
  std::vector<grpc::Slice> slices;
  for (const auto& [encoded, bytes] : parts) {
    slices.push_back(encoded);
    if (!bytes.empty()) slices.push_back(loan.Lend(bytes));
  }
  grpc::ByteBuffer request(slices.data(), slices.size());
  slices.clear();  // The call alone keeps what was lent.
  Announce(context, request.Length(), options_.checksums);
  ASSIGN_OR_RETURN(
      const grpc::ByteBuffer response,
      CallRaw(channel_, kMethod, context, request, options_.checksums));
  return ReadResult(response, sequence);
}

}  // namespace gemmd::client
