#include "service/rpc/matmul_results.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "service/rpc/region_part.h"
#include "service/rpc/sequence_names.h"
#include "service/rpc/wire_layout.h"

namespace gemmd::rpc {
namespace {

// Of a response, beside its matrices: an execution takes a few hundred bytes.
constexpr int64_t kMoreOfAnAnswer = 64 << 10;

// A result: how the API and a product call it.
struct ResultKind {
  const char* name;
  const v1::Destination& (v1::MatmulHeader::*destination)() const;
  engine::Destination engine::Product::*to;
};

constexpr ResultKind kD = {"d", &v1::MatmulHeader::d, &engine::Product::d};
constexpr ResultKind kAuxiliary = {"auxiliary", &v1::MatmulHeader::auxiliary,
                                   &engine::Product::auxiliary};

absl::Status CheckName(const v1::Destination& destination,
                       const SequenceNames* names, absl::string_view field) {
  if (destination.name().empty()) return absl::OkStatus();
  if (names == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".name is given; allowed in steps of a Sequence alone"));
  }
  if (!destination.has_tensor()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, ".name is given and so is ", field,
      ".tensor; allowed: one, because a tensor is read by its handle"));
}

absl::Status SetTensor(const Asker& asker, const ResultKind& kind,
                       const std::string& handle, engine::Product& product) {
  std::shared_ptr<engine::Tensor>& tensor = (product.*kind.to).tensor;
  ASSIGN_OR_RETURN(tensor,
                   FindTensor(asker, handle, product.problem.d(), kind.name));
  for (const auto input : engine::kInputs) {
    const bool in_place =
        kind.to == &engine::Product::d && input == &engine::Product::c;
    if (in_place || (product.*input).tensor != tensor) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        kind.name,
        ".tensor is also an input; allowed: a tensor of its own, or "
        "c's for d"));
  }
  return absl::OkStatus();
}

absl::Status SetRegion(const Asker& asker, const ResultKind& kind,
                       const v1::RegionPart& part, engine::Product& product) {
  const jit::MatrixLayout layout = product.problem.d();
  const std::string field = absl::StrCat(kind.name, ".region");
  ASSIGN_OR_RETURN(
      RegionBytes found,
      FindRegion(*asker.runtime.regions, asker.identity, part, layout, field));
  RETURN_IF_ERROR(
      CheckTight(found.wire, layout, absl::StrCat(field, ".layout")));
  engine::Destination& to = product.*kind.to;
  to.place = std::move(found.place);
  to.pitch_bytes = found.wire.pitch_bytes;
  return absl::OkStatus();
}

// Adds the bytes of a result that one message returns.
absl::Status AddBytes(const Asker& asker, const ResultKind& kind, int64_t bytes,
                      MatmulBytes& all) {
  const int64_t limit = asker.runtime.limits.max_message_bytes;
  if (bytes <= limit - kMoreOfAnAnswer - all.result_bytes) {
    all.result_bytes += bytes;
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      kind.name, " has ", bytes, " bytes",
      all.result_bytes == 0
          ? ""
          : absl::StrCat(" beside the ", all.result_bytes, " of d"),
      "; a response is limited to ", limit, " bytes, ", kMoreOfAnAnswer,
      " of them for the rest of it. Use MatmulStream, or let ", kind.name,
      " be a tensor, or go to a region."));
}

absl::Status SetResult(const Asker& asker, const v1::MatmulHeader& header,
                       const ResultKind& kind, Transport transport,
                       SequenceNames* names, engine::Product& product,
                       MatmulBytes& bytes) {
  const v1::Destination& destination = (header.*kind.destination)();
  RETURN_IF_ERROR(CheckName(destination, names, kind.name));
  if (destination.has_tensor()) {
    return SetTensor(asker, kind, destination.tensor(), product);
  }
  const jit::MatrixLayout layout = product.problem.d();
  engine::Destination& to = product.*kind.to;
  if (destination.has_region()) {
    RETURN_IF_ERROR(SetRegion(asker, kind, destination.region(), product));
  } else if (destination.has_inline_() || destination.name().empty()) {
    // What has a name need not be returned.
    const std::string field = absl::StrCat(kind.name, ".inline");
    ASSIGN_OR_RETURN(const WireLayout wire,
                     ToSentLayout(destination.inline_(), layout, field));
    if (transport == Transport::kOneMessage) {
      RETURN_IF_ERROR(AddBytes(asker, kind, wire.least_bytes, bytes));
    }
    to.pitch_bytes = wire.pitch_bytes;
    to.is_returned = product.problem.writes();
  }
  if (names == nullptr) return absl::OkStatus();
  const bool leaves = to.is_returned || destination.has_region();
  return names->Write(destination.name(), layout, leaves, kind.name, kind.to);
}

// Both are written as they are computed.
absl::Status CheckOwn(const engine::Product& product) {
  const jit::MatrixLayout layout = product.problem.d();
  if (engine::Overlap(WrittenBytes(product.d, layout),
                      WrittenBytes(product.auxiliary, layout))) {
    return absl::InvalidArgumentError(
        "auxiliary and d overlap in a region; allowed: bytes of their own");
  }
  if (product.d.tensor == nullptr ||
      product.d.tensor != product.auxiliary.tensor) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "auxiliary.tensor is also d's; allowed: a tensor of its own");
}

}  // namespace

absl::Status SetResults(const Asker& asker, const v1::MatmulHeader& header,
                        Transport transport, SequenceNames* names,
                        engine::Product& product, MatmulBytes& bytes) {
  RETURN_IF_ERROR(
      SetResult(asker, header, kD, transport, names, product, bytes));
  if (!product.problem.epilogue.writes_auxiliary) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(
      SetResult(asker, header, kAuxiliary, transport, names, product, bytes));
  return CheckOwn(product);
}

}  // namespace gemmd::rpc
