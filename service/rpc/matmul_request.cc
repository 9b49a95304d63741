#include "service/rpc/matmul_request.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "service/rpc/convert.h"
#include "service/rpc/matmul_results.h"
#include "service/rpc/parse.h"
#include "service/rpc/region_part.h"
#include "service/rpc/sequence_names.h"
#include "service/rpc/wire_layout.h"
#include "service/rpc/wire_reader.h"

namespace gemmd::rpc {
namespace {

// A header takes a few hundred bytes.
constexpr int64_t kMaxHeaderBytes = 64 << 10;

// An operand: how the API, a request and a product call it.
struct OperandKind {
  v1::MatmulStreamRequest::Operand operand;
  int field;  // Of MatmulRequest.
  const char* name;
  Pieces MatmulFields::*pieces;
  const v1::Source& (v1::MatmulHeader::*source)() const;
  jit::MatrixLayout (jit::Problem::*layout)() const;
  bool (*is_read)(const jit::Problem&);
  engine::Input engine::Product::*input;
};

// In the order in which they are streamed.
constexpr OperandKind kOperands[] = {
    {v1::MatmulStreamRequest::OPERAND_A, v1::MatmulRequest::kAFieldNumber, "a",
     &MatmulFields::a, &v1::MatmulHeader::a, &jit::Problem::a,
     [](const jit::Problem& p) { return p.reads_ab(); }, &engine::Product::a},
    {v1::MatmulStreamRequest::OPERAND_B, v1::MatmulRequest::kBFieldNumber, "b",
     &MatmulFields::b, &v1::MatmulHeader::b, &jit::Problem::b,
     [](const jit::Problem& p) { return p.reads_ab(); }, &engine::Product::b},
    {v1::MatmulStreamRequest::OPERAND_C, v1::MatmulRequest::kCFieldNumber, "c",
     &MatmulFields::c, &v1::MatmulHeader::c, &jit::Problem::c,
     [](const jit::Problem& p) { return p.reads_c(); }, &engine::Product::c},
    {v1::MatmulStreamRequest::OPERAND_BIAS, v1::MatmulRequest::kBiasFieldNumber,
     "bias", &MatmulFields::bias, &v1::MatmulHeader::bias, &jit::Problem::bias,
     [](const jit::Problem& p) { return !p.bias().empty(); },
     &engine::Product::bias},
    {v1::MatmulStreamRequest::OPERAND_A_SCALE,
     v1::MatmulRequest::kAScaleFieldNumber, "a_scale", &MatmulFields::a_scale,
     &v1::MatmulHeader::a_scale, &jit::Problem::a_scale,
     [](const jit::Problem& p) { return p.reads_ab() && !p.a_scale().empty(); },
     &engine::Product::a_scale},
    {v1::MatmulStreamRequest::OPERAND_B_SCALE,
     v1::MatmulRequest::kBScaleFieldNumber, "b_scale", &MatmulFields::b_scale,
     &v1::MatmulHeader::b_scale, &jit::Problem::b_scale,
     [](const jit::Problem& p) { return p.reads_ab() && !p.b_scale().empty(); },
     &engine::Product::b_scale},
    {v1::MatmulStreamRequest::OPERAND_D_SCALE,
     v1::MatmulRequest::kDScaleFieldNumber, "d_scale", &MatmulFields::d_scale,
     &v1::MatmulHeader::d_scale, &jit::Problem::d_scale,
     [](const jit::Problem& p) { return !p.d_scale().empty(); },
     &engine::Product::d_scale},
};

// The layout whose bytes are those of `layout`'s transpose.
jit::MatrixLayout Transposed(jit::MatrixLayout layout) {
  std::swap(layout.rows, layout.columns);
  layout.order = layout.order == jit::Order::kRowMajor
                     ? jit::Order::kColumnMajor
                     : jit::Order::kRowMajor;
  return layout;
}

// An inline operand; one whose bytes follow is awaited.
absl::Status SetInline(const Asker& asker, const OperandKind& kind,
                       const v1::Layout& inline_layout, Pieces pieces,
                       const jit::MatrixLayout& layout, Transport transport,
                       engine::Product& product, MatmulBytes& bytes) {
  const std::string field = absl::StrCat(kind.name, ".inline");
  ASSIGN_OR_RETURN(const WireLayout wire,
                   ToWireLayout(inline_layout, layout, field));
  if (transport == Transport::kStream) {
    RETURN_IF_ERROR(CheckApart(wire, layout, field));
    if (!layout.empty()) {
      bytes.awaited.push_back(
          {kind.operand, kind.name, kind.input, layout, wire});
    }
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckLength(wire, SizeOf(pieces), kind.name));
  RETURN_IF_ERROR(CheckOverlap(wire, layout,
                               asker.runtime.limits.max_message_bytes, field));
  engine::Input& input = product.*kind.input;
  input.pieces = std::move(pieces);
  input.pitch_bytes = wire.pitch_bytes;
  input.matrix_bytes = wire.matrix_bytes;
  return absl::OkStatus();
}

absl::Status SetRegion(const Asker& asker, const OperandKind& kind,
                       const v1::RegionPart& part,
                       const jit::MatrixLayout& layout,
                       engine::Product& product) {
  const std::string field = absl::StrCat(kind.name, ".region");
  RETURN_IF_ERROR(CheckReadsRegion(layout, field));
  ASSIGN_OR_RETURN(
      RegionBytes found,
      FindRegion(*asker.runtime.regions, asker.identity, part, layout, field));
  RETURN_IF_ERROR(CheckOverlap(found.wire, layout,
                               asker.runtime.limits.max_message_bytes,
                               absl::StrCat(field, ".layout")));
  engine::Input& input = product.*kind.input;
  input.pieces = {
      {found.place.bytes(), static_cast<size_t>(found.wire.least_bytes)}};
  input.pitch_bytes = found.wire.pitch_bytes;
  input.matrix_bytes = found.wire.matrix_bytes;
  input.region = std::move(found.place.region);
  return absl::OkStatus();
}

absl::Status SetInput(const Asker& asker, const OperandKind& kind,
                      const v1::Source& source, Pieces pieces,
                      Transport transport, SequenceNames* names,
                      engine::Product& product, MatmulBytes& bytes) {
  const jit::MatrixLayout layout = (product.problem.*kind.layout)();
  if (source.has_name()) {
    if (names == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          kind.name, ".name is given; allowed in steps of a Sequence alone"));
    }
    return names->Read(*asker.runtime.regions, asker.identity, source.name(),
                       source.transposed() ? Transposed(layout) : layout,
                       kind.name, kind.input);
  }
  if (names != nullptr && !source.has_tensor()) {
    return absl::InvalidArgumentError(absl::StrCat(
        kind.name,
        source.has_region()
            ? ".region is given; allowed in a step: a tensor, or a name, which "
              "an operand of the call in a region may have"
            : " is inline; allowed in a step: a tensor, or a name"));
  }
  if (!source.has_tensor()) {
    if (source.transposed()) {
      return absl::InvalidArgumentError(absl::StrCat(
          kind.name,
          ".transposed is true; allowed for tensors alone, because the "
          "order of inline operands is in the problem"));
    }
    if (source.has_region()) {
      if (pieces.empty()) {
        return SetRegion(asker, kind, source.region(), layout, product);
      }
      return absl::InvalidArgumentError(
          absl::StrCat(kind.name, " has ", SizeOf(pieces),
                       " bytes; allowed: 0, because its source is a region"));
    }
    return SetInline(asker, kind, source.inline_(), std::move(pieces), layout,
                     transport, product, bytes);
  }
  if (!pieces.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(kind.name, " has ", SizeOf(pieces),
                     " bytes; allowed: 0, because its source is a tensor"));
  }
  const jit::MatrixLayout stored =
      source.transposed() ? Transposed(layout) : layout;
  ASSIGN_OR_RETURN((product.*kind.input).tensor,
                   FindTensor(asker, source.tensor(), stored, kind.name));
  return absl::OkStatus();
}

// Where the bytes of a field belong; null for fields that are not operands.
Pieces* FieldOf(int number, MatmulFields& fields) {
  for (const OperandKind& kind : kOperands) {
    if (kind.field == number) return &(fields.*kind.pieces);
  }
  return nullptr;
}

// Whether one matrix is given for all products of a batch.
bool IsBroadcast(const Asker& asker, const v1::Source& source, int64_t batch,
                 const SequenceNames* names) {
  if (batch == 1) return false;
  if (source.has_name()) {
    return names != nullptr && names->IsSingle(source.name());
  }
  if (!source.has_tensor()) {
    const v1::Layout& layout =
        source.has_region() ? source.region().layout() : source.inline_();
    return layout.has_batch_stride() && layout.batch_stride() == 0;
  }
  // A handle that is unknown is refused where its field is named.
  const auto tensor = FindTensor(asker, source.tensor());
  return tensor.ok() && (*tensor)->layout().count == 1;
}

// The device of what lives on `home`, which is `device` unless that is -1.
absl::StatusOr<int> JoinHome(const Runtime& runtime, const char* what, int home,
                             int device) {
  if (device == -1 || device == home) return home;
  const auto name = [&](int i) {
    return runtime.engine.device(i).description().name;
  };
  return absl::InvalidArgumentError(absl::StrCat(
      "device: ", what, " lives on ", name(home), " and not on ", name(device),
      "; allowed: results and device memory on one device"));
}

absl::StatusOr<int> DeviceOf(const Runtime& runtime, const std::string& name,
                             const engine::Product& product) {
  int device = -1;
  if (!name.empty()) {
    ASSIGN_OR_RETURN(device, runtime.engine.ChooseDevice(name));
  }
  ASSIGN_OR_RETURN(device, BoundTo(runtime, product, device));
  if (device != -1) return device;
  return ChooseDevice(runtime, {&product, 1});
}

}  // namespace

absl::StatusOr<MatmulFields> ReadMatmulFields(absl::Span<const Piece> pieces) {
  MatmulFields fields;
  WireReader reader(pieces);
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next());
    if (!more) return fields;
    if (!reader.length_delimited()) continue;  // Unknown to us.
    switch (reader.number()) {
      case v1::MatmulRequest::kHeaderFieldNumber: {
        const int64_t size = SizeOf(reader.value());
        if (size > kMaxHeaderBytes) {
          return absl::InvalidArgumentError(absl::StrCat(
              "header has ", size, " bytes; allowed: 0 to ", kMaxHeaderBytes));
        }
        RETURN_IF_ERROR(Parse(Join(reader.value()), "header", fields.header));
        break;
      }
      default:
        if (Pieces* pieces = FieldOf(reader.number(), fields)) {
          *pieces = reader.value();
        }
    }
  }
}

absl::StatusOr<int> BoundTo(const Runtime& runtime,
                            const device::Region* region, int device) {
  if (!device::IsOnDevice(region)) return device;
  return JoinHome(runtime, "a region", region->device(), device);
}

absl::StatusOr<int> BoundTo(const Runtime& runtime,
                            const engine::Product& product, int device) {
  for (const auto input : engine::kInputs) {
    const device::Region* const region = (product.*input).region.get();
    if (region == nullptr) continue;
    ASSIGN_OR_RETURN(device, BoundTo(runtime, region, device));
  }
  for (const auto result : engine::kResults) {
    const engine::Destination& to = product.*result;
    if (to.tensor != nullptr) {
      ASSIGN_OR_RETURN(device, JoinHome(runtime, "a tensor",
                                        to.tensor->identity().device, device));
    }
    ASSIGN_OR_RETURN(device, BoundTo(runtime, to.place.region.get(), device));
  }
  return device;
}

absl::StatusOr<int> ChooseDevice(const Runtime& runtime,
                                 absl::Span<const engine::Product> products) {
  std::vector<std::shared_ptr<engine::Tensor>> read;
  for (const engine::Product& product : products) {
    for (const auto input : engine::kInputs) {
      if ((product.*input).tensor) read.push_back((product.*input).tensor);
    }
  }
  return runtime.engine.ChooseDevice(read);
}

absl::StatusOr<std::string> OperandName(uint64_t operand) {
  std::string names;
  for (const OperandKind& kind : kOperands) {
    if (static_cast<uint64_t>(kind.operand) == operand) return kind.name;
    absl::StrAppend(&names, names.empty() ? "" : ", ", kind.operand, " (",
                    kind.name, ")");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("chunk.operand is ", operand, "; allowed: ", names));
}

namespace {

// All but the device, of a product whose problem is the header's. `fields` is
// null where nothing comes beside that.
absl::Status SetProduct(const v1::MatmulHeader& header, MatmulFields* fields,
                        const Asker& asker, Transport transport,
                        SequenceNames* names, engine::Product& product,
                        MatmulBytes& bytes) {
  jit::Problem& problem = product.problem;
  problem.a_broadcast = IsBroadcast(asker, header.a(), problem.batch, names);
  problem.b_broadcast = IsBroadcast(asker, header.b(), problem.batch, names);
  for (const OperandKind& kind : kOperands) {
    Pieces pieces;
    if (fields != nullptr) pieces = std::move(fields->*kind.pieces);
    bytes.operand_bytes += SizeOf(pieces);
    if (!kind.is_read(problem)) {
      if (transport == Transport::kStream) {
        bytes.unread.push_back(kind.operand);
      }
      continue;
    }
    RETURN_IF_ERROR(SetInput(asker, kind, (header.*kind.source)(),
                             std::move(pieces), transport, names, product,
                             bytes));
  }
  return SetResults(asker, header, transport, names, product, bytes);
}

}  // namespace

absl::StatusOr<jit::Problem> ReadProblem(const v1::MatmulHeader& header) {
  if (header.has_problem()) return ToProblem(header.problem());
  return absl::InvalidArgumentError("header.problem is missing");
}

absl::StatusOr<MatmulRequest> ToMatmulRequest(MatmulFields fields,
                                              const Asker& asker,
                                              Transport transport) {
  MatmulRequest request;
  const v1::MatmulHeader& header = fields.header;
  ASSIGN_OR_RETURN(request.product.problem, ReadProblem(header));
  RETURN_IF_ERROR(SetProduct(header, &fields, asker, transport, nullptr,
                             request.product, request));
  ASSIGN_OR_RETURN(request.device,
                   DeviceOf(asker.runtime, header.device(), request.product));
  return request;
}

absl::StatusOr<int64_t> SetStep(const v1::MatmulHeader& header,
                                const Asker& asker, SequenceNames& names,
                                engine::Product& step) {
  MatmulBytes bytes;
  // What is inline comes beside the steps.
  RETURN_IF_ERROR(SetProduct(header, nullptr, asker, Transport::kOneMessage,
                             &names, step, bytes));
  if (header.device().empty()) return bytes.result_bytes;
  return absl::InvalidArgumentError(
      "device is given; allowed for the whole sequence alone");
}

}  // namespace gemmd::rpc
