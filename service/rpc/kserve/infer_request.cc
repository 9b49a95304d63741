#include "service/rpc/kserve/infer_request.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "service/rpc/kserve/contents.h"
#include "service/rpc/kserve/datatype.h"
#include "service/rpc/kserve/inference.h"
#include "service/rpc/kserve/small_fields.h"
#include "service/rpc/kserve/text.h"
#include "service/rpc/parse.h"
#include "service/rpc/wire_reader.h"

namespace gemmd::rpc::kserve {
namespace {

using Request = inference::ModelInferRequest;
using Tensor = Request::InferInputTensor;

// An input without its contents.
absl::Status ReadInput(const Pieces& message, SmallFields& fields,
                       InferHeader& header) {
  SmallFields input(fields.room());
  Pieces contents;
  WireReader reader(message);
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) break;
    if (reader.number() == Tensor::kContentsFieldNumber &&
        reader.length_delimited()) {
      contents.insert(contents.end(), reader.value().begin(),
                      reader.value().end());
    } else {
      RETURN_IF_ERROR(input.Add(reader));
    }
  }
  header.contents.push_back(std::move(contents));
  return fields.AddMessage(Request::kInputsFieldNumber, input);
}

absl::Status CheckParameters(const Tensor& tensor) {
  for (const auto& [name, value] : tensor.parameters()) {
    if (absl::StartsWith(name, "shared_memory")) {
      return absl::UnimplementedError(absl::StrCat(
          "input ", Quoted(tensor.name()),
          " is in shared memory; served: raw_input_contents and contents"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Input> ToInput(const Tensor& tensor) {
  Input input;
  input.name = tensor.name();
  RETURN_IF_ERROR(CheckParameters(tensor));
  const bool multiplied = input.name == kA || input.name == kB;
  ASSIGN_OR_RETURN(
      input.type,
      ToDataType(tensor.datatype(),
                 absl::StrCat("the datatype of input ", Quoted(tensor.name())),
                 multiplied ? Use::kMultiplied : Use::kAny));
  input.shape.assign(tensor.shape().begin(), tensor.shape().end());
  ASSIGN_OR_RETURN(input.elements, CountOf(input.shape, input.name));
  return input;
}

absl::Status CheckBytes(const Input& input, int64_t bytes) {
  if (bytes == input.bytes()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("input byte size mismatch for input ", Quoted(input.name),
                   ". Expected ", input.bytes(), ", got ", bytes));
}

absl::Status CheckNames(const Request& header) {
  std::set<absl::string_view> names;
  for (const Tensor& tensor : header.inputs()) {
    if (names.insert(tensor.name()).second) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "input ", Quoted(tensor.name()), " is given twice; allowed: once"));
  }
  return absl::OkStatus();
}

// In more pieces than a transport makes of it: to be joined.
bool IsFragmented(const Input& input) {
  constexpr int64_t kPieceBytes = 1024;
  return static_cast<int64_t>(input.data.size()) >
         16 + SizeOf(input.data) / kPieceBytes;
}

}  // namespace

absl::StatusOr<InferHeader> ReadInferHeader(absl::Span<const Piece> pieces) {
  SmallFields fields(kMaxHeaderBytes);
  InferHeader header;
  WireReader reader(pieces);
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) break;
    if (reader.length_delimited() &&
        reader.number() == Request::kRawInputContentsFieldNumber) {
      header.raw.push_back(reader.value());
    } else if (reader.length_delimited() &&
               reader.number() == Request::kInputsFieldNumber) {
      RETURN_IF_ERROR(ReadInput(reader.value(), fields, header));
    } else {
      RETURN_IF_ERROR(fields.Add(reader));
    }
  }
  RETURN_IF_ERROR(Parse(fields.bytes(), "the request", header.message));
  return header;
}

absl::StatusOr<InferRequest> ToInferRequest(InferHeader header) {
  InferRequest request;
  request.header = std::move(header.message);
  RETURN_IF_ERROR(CheckNames(request.header));
  for (const Tensor& tensor : request.header.inputs()) {
    ASSIGN_OR_RETURN(Input input, ToInput(tensor));
    request.inputs.push_back(std::move(input));
  }
  const size_t count = request.inputs.size();
  if (!header.raw.empty() && header.raw.size() != count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "raw_input_contents is there ", header.raw.size(),
        " times; allowed: ", count, ", once for each input, or none"));
  }
  for (size_t i = 0; i < count; ++i) {
    Input& input = request.inputs[i];
    if (header.raw.empty()) {
      RETURN_IF_ERROR(ReadContents(header.contents[i], input));
    } else if (!header.contents[i].empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("contents field must not be specified when using "
                       "raw_input_contents for ",
                       Quoted(input.name)));
    } else {
      input.data = std::move(header.raw[i]);
    }
    if (input.numbers.empty()) {
      RETURN_IF_ERROR(CheckBytes(input, SizeOf(input.data)));
    }
  }
  return request;
}

int64_t DecodedBytes(const InferRequest& request) {
  int64_t sum = 0;
  for (const Input& input : request.inputs) {
    if (!input.numbers.empty() || IsFragmented(input)) sum += input.bytes();
  }
  return sum;
}

bool TakesLong(const InferRequest& request) {
  constexpr int64_t kLongBytes = 64 << 10;
  constexpr int64_t kManyMatrices = 1024;
  if (DecodedBytes(request) > kLongBytes) return true;
  // As many as there are at most, where each of one goes with each of another.
  int64_t matrices = 1;
  for (const Input& input : request.inputs) {
    for (size_t i = 2; i < input.shape.size(); ++i) {
      matrices *= std::max<int64_t>(input.shape[i - 2], 1);
      if (matrices > kManyMatrices) return true;
    }
  }
  return false;
}

absl::Status Decode(InferRequest& request) {
  for (Input& input : request.inputs) {
    if (!input.numbers.empty()) {
      ASSIGN_OR_RETURN(input.own, DecodeNumbers(input));
    } else if (IsFragmented(input)) {
      input.own = Join(input.data);
    } else {
      continue;
    }
    input.data = {Piece(input.own)};
  }
  return absl::OkStatus();
}

}  // namespace gemmd::rpc::kserve
