#include "clients/cpp/matmul_response.h"

#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "clients/cpp/matmul_header.h"
#include "clients/cpp/read_result.h"
#include "gemmd/v1/matmul.pb.h"
#include "jit/base/status.h"

namespace gemmd::client {
namespace {

// A result that may come, and what becomes of it.
struct Output {
  absl::Status Take(uint64_t length, SliceReader& reader) {
    if (length != size) {
      return absl::InternalError(absl::StrCat(
          "the daemon sent ", length, " bytes of ", name,
          bytes.data() == nullptr ? ", which has " : "; the buffer has ",
          size));
    }
    came = true;
    if (bytes.data() == nullptr) {
      otherwise = reader.Read(length);
    } else {
      reader.Read(bytes);
    }
    return absl::OkStatus();
  }

  int field;  // Of MatmulResponse.
  absl::string_view name;
  absl::Span<char> bytes;  // Its own;
  std::string& otherwise;  // without one, this gets it.
  uint64_t size;
  bool came = false;
};

Output ToOutput(int field, absl::string_view name, const Destination& to,
                const v1::Problem& problem, std::string& otherwise) {
  return {field, name, to.bytes, otherwise, BytesTo(to, problem)};
}

}  // namespace

absl::Status ReadResponse(SliceReader& reader, uint64_t rest,
                          const Product& product, Result& result) {
  using Response = v1::MatmulResponse;
  absl::InlinedVector<Output, 2> outputs = {ToOutput(
      Response::kDFieldNumber, "D", product.d, product.problem, result.d)};
  if (product.problem.epilogue().auxiliary()) {
    outputs.push_back(ToOutput(Response::kAuxiliaryFieldNumber,
                               "the auxiliary result", product.auxiliary,
                               product.problem, result.auxiliary));
  }
  RETURN_IF_ERROR(
      ReadResult<Response>(reader, rest, absl::MakeSpan(outputs), result));
  if (product.problem.epilogue().amax() && !result.amax) {
    return absl::InternalError("the daemon sent no amax");
  }
  for (const Output& output : outputs) {
    if (!output.came && output.size > 0) {
      return absl::InternalError(
          absl::StrCat("the daemon sent nothing of ", output.name));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Result>> ReadResponses(
    const grpc::ByteBuffer& message, int number, absl::string_view name,
    absl::Span<const Product> products, ReadOther other) {
  ASSIGN_OR_RETURN(SliceReader reader, SliceReader::Create(message));
  std::vector<Result> results;
  results.reserve(products.size());
  while (!reader.done()) {
    ASSIGN_OR_RETURN(const SliceReader::Field field, reader.ReadField());
    if (!field.delimited) continue;
    if (field.number != number) {
      RETURN_IF_ERROR(other(field, reader));
      continue;
    }
    const size_t i = results.size();
    if (i == products.size()) {
      return absl::InternalError(
          absl::StrCat("the daemon answered for more than ", i, " ", name));
    }
    const absl::Status read =
        ReadResponse(reader, reader.remaining() - field.length, products[i],
                     results.emplace_back());
    if (!read.ok()) {
      return absl::Status(read.code(),
                          absl::StrCat(name, "[", i, "]: ", read.message()));
    }
  }
  if (results.size() == products.size()) return results;
  return absl::InternalError(absl::StrCat("the daemon answered for ",
                                          results.size(), " of ",
                                          products.size(), " ", name));
}

}  // namespace gemmd::client
