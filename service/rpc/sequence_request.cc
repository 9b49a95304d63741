#include "service/rpc/sequence_request.h"

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "service/rpc/parse.h"
#include "service/rpc/step_headers.h"
#include "service/rpc/wire_reader.h"

namespace gemmd::rpc {
namespace {

// Beside the matrices: an Execution takes a few hundred bytes.
constexpr int64_t kMoreOfAStep = 1024;

struct Fields {
  // A step seldom lies in more pieces than one.
  std::vector<absl::InlinedVector<Piece, 1>> steps;
  std::vector<Pieces> operands;
  std::string device;
  bool shares_executions = false;
};

absl::Status TooMany(absl::string_view field, int most) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": more than ", most, "; allowed: 0 to ", most));
}

absl::StatusOr<Fields> ReadFields(absl::Span<const Piece> pieces) {
  Fields fields;
  WireReader reader(pieces, kMaxSteps + kMaxOperands + WireReader::kMaxFields);
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) return fields;
    if (reader.is_varint() &&
        reader.number() == v1::SequenceRequest::kSharedExecutionsFieldNumber) {
      fields.shares_executions = reader.varint() != 0;
    }
    if (!reader.length_delimited()) continue;  // Unknown to us.
    switch (reader.number()) {
      case v1::SequenceRequest::kStepsFieldNumber:
        if (fields.steps.size() == kMaxSteps) {
          return TooMany("steps", kMaxSteps);
        }
        fields.steps.emplace_back(reader.value().begin(), reader.value().end());
        break;
      case v1::SequenceRequest::kOperandsFieldNumber:
        if (fields.operands.size() == kMaxOperands) {
          return TooMany("operands", kMaxOperands);
        }
        fields.operands.push_back(reader.value());
        break;
      case v1::SequenceRequest::kDeviceFieldNumber:
        fields.device = Join(reader.value());
        break;
    }
  }
}

// Joins them one after the other, and counts their bytes.
class Headers {
 public:
  // Valid until the next one; where they lie in one piece, as long as that is.
  absl::StatusOr<absl::string_view> Join(absl::Span<const Piece> pieces) {
    bytes_ += SizeOf(pieces);
    if (bytes_ > kMaxSequenceHeaderBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("steps and operands until here have more than ",
                       kMaxSequenceHeaderBytes, " bytes in all without data"));
    }
    if (pieces.size() == 1) {
      return absl::string_view(pieces[0].data(), pieces[0].size());
    }
    joined_ = rpc::Join(pieces);
    return joined_;
  }
  absl::Status Parse(absl::Span<const Piece> pieces, absl::string_view what,
                     google::protobuf::Message& message) {
    ASSIGN_OR_RETURN(const absl::string_view bytes, Join(pieces));
    return rpc::Parse(std::string(bytes), what, message);
  }

 private:
  int64_t bytes_ = 0;
  std::string joined_;
};

// Adds one operand to the names.
absl::Status ReadOperand(absl::Span<const Piece> pieces, Headers& headers,
                         SequenceRequest& request) {
  std::string name;
  SequenceOperand operand;
  bool has_layout = false;
  WireReader reader(pieces);
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) break;
    if (!reader.length_delimited()) continue;
    switch (reader.number()) {
      case v1::SequenceOperand::kNameFieldNumber:
        // Longer ones are refused by their length.
        name = SizeOf(reader.value()) < kMaxSequenceHeaderBytes
                   ? Join(reader.value())
                   : std::string();
        break;
      case v1::SequenceOperand::kLayoutFieldNumber:
        RETURN_IF_ERROR(
            headers.Parse(reader.value(), "layout", operand.layout));
        has_layout = true;
        break;
      case v1::SequenceOperand::kDataFieldNumber:
        operand.data = reader.value();
        break;
      case v1::SequenceOperand::kRegionFieldNumber:
        RETURN_IF_ERROR(
            headers.Parse(reader.value(), "region", operand.region.emplace()));
        break;
    }
  }
  if (operand.region && (has_layout || SizeOf(operand.data) > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat(has_layout ? "layout" : "data",
                     " is given and so is region; allowed: that alone, which "
                     "has a layout of its own"));
  }
  request.operand_bytes += SizeOf(operand.data);
  return request.names.AddOperand(name, std::move(operand));
}

// Bytes of regions that results of the steps until here go to.
class WrittenRegions {
 public:
  // Of the next step. INVALID_ARGUMENT where steps before it have some of them.
  absl::Status Add(const engine::Product& step) {
    const jit::MatrixLayout layout = step.problem.d();
    for (const auto result : engine::kResults) {
      const absl::Span<const char> bytes =
          engine::WrittenBytes(step.*result, layout);
      if (bytes.empty()) continue;
      const char* const name =
          result == &engine::Product::d ? "d" : "auxiliary";
      for (const auto& [other, other_name, other_step] : all_) {
        if (other_step == steps_ || !engine::Overlap(bytes, other)) continue;
        return absl::InvalidArgumentError(absl::StrCat(
            name, ".region overlaps ", other_name, ".region of steps[",
            other_step, "]; allowed: bytes of their own"));
      }
      all_.push_back({bytes, name, steps_});
    }
    ++steps_;
    return absl::OkStatus();
  }

 private:
  struct Written {
    absl::Span<const char> bytes;
    const char* name;
    int step;
  };
  std::vector<Written> all_;
  int steps_ = 0;
};

// Reads the steps one after the other.
class StepReader {
 public:
  // Of so many steps. All three outlive it.
  StepReader(size_t count, const Asker& asker, Headers& headers,
             SequenceRequest& request)
      : asker_(asker), headers_(headers), request_(request) {
    known_.reserve(count);
    request.sequence.steps.reserve(count);
  }

  absl::Status Read(absl::Span<const Piece> pieces) {
    ASSIGN_OR_RETURN(const absl::string_view bytes, headers_.Join(pieces));
    request_.names.BeginStep();
    std::vector<engine::Product>& steps = request_.sequence.steps;
    size_t unknown = kUnknown;
    size_t& known = pieces.size() == 1
                        ? known_.try_emplace(bytes, kUnknown).first->second
                        : unknown;
    int64_t returned = 0;
    if (known != kUnknown) {
      steps.push_back(steps[known]);
    } else {
      ASSIGN_OR_RETURN(returned, Set(bytes, steps.emplace_back()));
      if (!request_.names.StepUsesAny()) known = steps.size() - 1;
    }
    RETURN_IF_ERROR(written_.Add(steps.back()));
    return AddReturned(returned);
  }

 private:
  static constexpr size_t kUnknown = -1;

  // Gives the bytes that it returns.
  absl::StatusOr<int64_t> Set(absl::string_view bytes, engine::Product& step) {
    RETURN_IF_ERROR(read_.Read(bytes));
    step.problem = read_.problem();
    ASSIGN_OR_RETURN(const int64_t returned,
                     SetStep(read_.header(), asker_, request_.names, step));
    ASSIGN_OR_RETURN(request_.device,
                     BoundTo(asker_.runtime, step, request_.device));
    return returned;
  }

  absl::Status AddReturned(int64_t bytes) {
    request_.result_bytes += bytes + kMoreOfAStep;
    const int64_t limit = asker_.runtime.limits.max_message_bytes;
    if (request_.result_bytes <= limit) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("results until here have ", request_.result_bytes,
                     " bytes; a response is limited to ", limit,
                     ". Let d be a tensor, or go to a region."));
  }

  const Asker& asker_;
  Headers& headers_;
  SequenceRequest& request_;
  StepHeaders read_;
  WrittenRegions written_;
  // Steps of tensors alone, by their bytes: who says the same means the same.
  absl::flat_hash_map<absl::string_view, size_t> known_;
};

absl::Status CheckRooms(Runtime& runtime,
                        const std::vector<jit::MatrixLayout>& rooms) {
  for (const jit::MatrixLayout& layout : rooms) {
    RETURN_IF_ERROR(
        CheckTensorBytes(runtime, layout, "a matrix of the sequence"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SequenceRequest> ToSequenceRequest(
    absl::Span<const Piece> pieces, Runtime& runtime,
    const std::string& identity) {
  ASSIGN_OR_RETURN(const Fields fields, ReadFields(pieces));
  FoundTensors found;
  found.reserve(fields.steps.size());
  const Asker asker = {
      .runtime = runtime, .identity = identity, .found = &found};
  SequenceRequest request;
  request.device = -1;
  request.shares_executions = fields.shares_executions;
  if (!fields.device.empty()) {
    ASSIGN_OR_RETURN(request.device,
                     runtime.engine.ChooseDevice(fields.device));
  }
  Headers headers;
  for (size_t i = 0; i < fields.operands.size(); ++i) {
    const absl::Status read = ReadOperand(fields.operands[i], headers, request);
    if (read.ok()) continue;
    return absl::Status(read.code(),
                        absl::StrCat("operands[", i, "]: ", read.message()));
  }
  StepReader steps(fields.steps.size(), asker, headers, request);
  for (size_t i = 0; i < fields.steps.size(); ++i) {
    const absl::Status read = steps.Read(fields.steps[i]);
    if (!read.ok()) return engine::OfStep(i, read);
  }
  ASSIGN_OR_RETURN(request.device,
                   request.names.BoundTo(asker.runtime, request.device));
  RETURN_IF_ERROR(request.names.CheckOverlap(runtime.limits.max_message_bytes));
  if (request.device == -1) {
    ASSIGN_OR_RETURN(request.device,
                     ChooseDevice(asker.runtime, request.sequence.steps));
  }
  request.rooms = request.names.Rooms();
  RETURN_IF_ERROR(CheckRooms(asker.runtime, request.rooms));
  return request;
}

}  // namespace gemmd::rpc
