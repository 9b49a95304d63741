#include "service/engine/bands.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "jit/base/status.h"
#include "service/device/stopwatch.h"
#include "service/engine/positions.h"

namespace gemmd::engine {
namespace {

// Bands have a multiple of so many lines, but for the last one: while they
// travel, tiles of that height are multiplied, whatever k is. (An SM with 6
// TFLOP/s makes a tile of 128 x 256 over k of 8192 in 89 us; at 55 GB/s, 512
// lines of so many elements of 16 bits come in 150.)
constexpr int64_t kBandLines = 512;
// Of a band, there and back: copies of less would wait for their commands.
constexpr int64_t kBandBytes = int64_t{4} << 20;
// More would not end sooner by much.
constexpr int64_t kMostBands = 32;

using Layout = jit::MatrixLayout (jit::Problem::*)() const;

struct InputRole {
  Input Product::*input;
  Layout layout;
  const device::Matrix* device::Operands::*matrix;
  jit::Form jit::Plan::*form = nullptr;  // Null: as it is stored.
};
constexpr InputRole kInputs[] = {
    {&Product::a, &jit::Problem::a, &device::Operands::a, &jit::Plan::a_form},
    {&Product::b, &jit::Problem::b, &device::Operands::b, &jit::Plan::b_form},
    {&Product::c, &jit::Problem::c, &device::Operands::c},
    {&Product::bias, &jit::Problem::bias, &device::Operands::bias},
    {&Product::a_scale, &jit::Problem::a_scale, &device::Operands::a_scale},
    {&Product::b_scale, &jit::Problem::b_scale, &device::Operands::b_scale},
    {&Product::d_scale, &jit::Problem::d_scale, &device::Operands::d_scale},
};

// D and what has its layout.
struct ResultRole {
  Destination Product::*to;
  device::Matrix* device::Operands::*matrix;
};
constexpr ResultRole kD = {&Product::d, &device::Operands::d};
constexpr ResultRole kAuxiliary = {&Product::auxiliary,
                                   &device::Operands::auxiliary};

std::vector<ResultRole> ResultsOf(const jit::Problem& problem) {
  if (problem.epilogue.writes_auxiliary) return {kD, kAuxiliary};
  return {kD};
}

bool IsRead(const Input& input) {
  return input.tensor != nullptr || !input.pieces.empty();
}

jit::Form FormOf(const InputRole& role, const jit::Plan& plan) {
  return role.form == nullptr ? jit::Form::kStored : plan.*role.form;
}

// Of so many lines of D: rows of A, or columns of B.
jit::Problem WithLines(jit::Problem problem, int64_t lines) {
  (problem.d_order == jit::Order::kRowMajor ? problem.m : problem.n) = lines;
  return problem;
}

// What is read, and either each line of D has its own, or all share it.
std::vector<InputRole> InputsOf(const Product& product, bool shared) {
  const jit::Problem one = WithLines(product.problem, 1);
  std::vector<InputRole> roles;
  for (const InputRole& role : kInputs) {
    const bool same = (one.*role.layout)() == (product.problem.*role.layout)();
    if (IsRead(product.*role.input) && same == shared) roles.push_back(role);
  }
  return roles;
}

// Nothing is made but elements, each of its row and column alone. Values by
// block would have to be cut where blocks end.
bool IsMadeByElement(const jit::Problem& problem) {
  return problem.batch == 1 && problem.reads_ab() &&
         !problem.epilogue.measures_amax &&
         problem.epilogue.a_scale != jit::Extent::kBlock;
}

bool ReturnsToHost(const Product& product) {
  for (const ResultRole& role : ResultsOf(product.problem)) {
    const Destination& to = product.*role.to;
    const device::Region* region = to.place.region.get();
    if (to.tensor != nullptr || region == nullptr ||
        device::IsOnDevice(region) ||
        WritesWhatIsRead(product, role.to, {&product, 1})) {
      return false;
    }
  }
  return true;
}

// The bytes of lines, or of values in a single one, that are `part` of `whole`,
// from number `first` on. Nothing where they are not in a run of lines, or not
// in memory of the host.
std::optional<Input> CutInput(const Input& input,
                              const jit::MatrixLayout& whole,
                              const jit::MatrixLayout& part, int64_t first) {
  if (input.tensor != nullptr || device::IsOnDevice(input.region.get())) {
    return std::nullopt;
  }
  const bool across = part.lines() == whole.lines();
  if (across && whole.lines() > 1) return std::nullopt;
  Input cut = input;
  const int64_t begin =
      across ? first * jit::BitsOf(whole.type) / 8 : first * input.pitch_bytes;
  const int64_t bytes =
      (part.lines() - 1) * input.pitch_bytes + part.width_bytes();
  cut.pieces = Positions(input.pieces).Cut(begin, bytes);
  return cut;
}

// `count` lines of D from `first` on.
std::optional<Product> CutProduct(const Product& product, int64_t first,
                                  int64_t count) {
  Product band = product;
  band.problem = WithLines(product.problem, count);
  for (const InputRole& role : InputsOf(product, /*shared=*/false)) {
    Input& input = band.*role.input;
    std::optional<Input> cut = CutInput(input, (product.problem.*role.layout)(),
                                        (band.problem.*role.layout)(), first);
    if (!cut) return std::nullopt;
    input = *std::move(cut);
  }
  for (const ResultRole& role : ResultsOf(product.problem)) {
    Destination& to = band.*role.to;
    to.place.offset += first * to.pitch_bytes;
  }
  return band;
}

// What comes and returns with each line of D.
int64_t LineBytes(const Product& product) {
  const jit::Problem one = WithLines(product.problem, 1);
  int64_t bytes = std::ssize(ResultsOf(one)) * one.d().width_bytes();
  for (const InputRole& role : InputsOf(product, /*shared=*/false)) {
    const jit::MatrixLayout line = (one.*role.layout)();
    bytes += line.lines() * line.width_bytes();
  }
  return bytes;
}

int64_t BandLines(const Product& product) {
  const int64_t lines = product.problem.d().lines();
  const int64_t enough = std::max((kBandBytes - 1) / LineBytes(product) + 1,
                                  (lines - 1) / kMostBands + 1);
  return ((enough - 1) / kBandLines + 1) * kBandLines;
}

// Puts a product on the device for its bands: what all of them read, which is
// enqueued at once, and room for what each has of its own.
class Placing {
 public:
  // All outlive it.
  Placing(device::Lane& lane, const Prepared& prepared, const Product& whole)
      : lane_(lane),
        forms_(prepared.forms),
        plan_(prepared.plan),
        whole_(whole),
        cut_(InputsOf(whole, /*shared=*/false)) {}

  absl::Status Share(const RequestContext& context);
  absl::Status Add(const Band& band);

  absl::Span<const device::Band> bands() const { return bands_; }
  int copies() const { return copies_; }

 private:
  absl::Status AddInput(const InputRole& role, const Band& band,
                        device::Band& placed);
  device::Matrix* Keep(std::unique_ptr<device::Matrix> matrix) {
    owned_.push_back({.owned = std::move(matrix)});
    return owned_.back().owned.get();
  }

  device::Lane& lane_;
  Forms* const forms_;
  const jit::Plan& plan_;
  const Product& whole_;
  const std::vector<InputRole> cut_;
  device::Operands shared_;
  std::vector<device::Band> bands_;
  std::vector<Resident> owned_;
  int copies_ = 0;
};

absl::Status Placing::Share(const RequestContext& context) {
  for (const InputRole& role : InputsOf(whole_, /*shared=*/true)) {
    ASSIGN_OR_RETURN(Operand operand,
                     BringOperand(lane_, forms_, whole_.*role.input,
                                  (whole_.problem.*role.layout)(),
                                  FormOf(role, plan_), context, copies_));
    shared_.*role.matrix = operand.values.matrix;
    if (operand.metadata.matrix != nullptr) {
      shared_.metadata = operand.metadata.matrix;
    }
    owned_.push_back(std::move(operand.values));
    owned_.push_back(std::move(operand.metadata));
  }
  return absl::OkStatus();
}

absl::Status Placing::AddInput(const InputRole& role, const Band& band,
                               device::Band& placed) {
  const Input& input = band.product.*role.input;
  device::Operands& operands = placed.product.operands;
  const jit::MatrixLayout layout = (band.product.problem.*role.layout)();
  ASSIGN_OR_RETURN(auto room, lane_.Allocate(layout));
  device::Matrix* const stored = Keep(std::move(room));
  operands.*role.matrix = stored;
  placed.inputs.push_back(
      {{input.pieces, input.pitch_bytes, input.region}, stored});
  const jit::Form form = FormOf(role, plan_);
  if (forms_ == nullptr || !forms_->Derives(form)) return absl::OkStatus();
  ASSIGN_OR_RETURN(Forms::Room derived, forms_->RoomFor(lane_, layout, form));
  device::Matrix* const to = Keep(std::move(derived.matrix));
  placed.derivations.push_back({form, derived.kernel, stored, to});
  (form == jit::Form::kMetadata ? operands.metadata : operands.*role.matrix) =
      to;
  return absl::OkStatus();
}

absl::Status Placing::Add(const Band& band) {
  const jit::Problem& problem = band.product.problem;
  device::Band placed = {.product = {&problem, &band.plan, shared_}};
  for (const InputRole& role : cut_) {
    RETURN_IF_ERROR(AddInput(role, band, placed));
  }
  for (const ResultRole& role : ResultsOf(problem)) {
    ASSIGN_OR_RETURN(auto room, lane_.Allocate(problem.d()));
    device::Matrix* const matrix = Keep(std::move(room));
    placed.product.operands.*role.matrix = matrix;
    placed.results.push_back({matrix, (band.product.*role.to).place,
                              (band.product.*role.to).pitch_bytes});
  }
  bands_.push_back(std::move(placed));
  return absl::OkStatus();
}

}  // namespace

std::vector<Band> CutIntoBands(const Product& product, const jit::Plan& plan,
                               const jit::DeviceProperties& device) {
  if (!IsMadeByElement(product.problem) || !ReturnsToHost(product)) return {};
  const int64_t lines = product.problem.d().lines();
  const int64_t at_once = BandLines(product);
  if (at_once >= lines) return {};
  std::vector<Band> bands;
  for (int64_t first = 0; first < lines; first += at_once) {
    std::optional<Product> part =
        CutProduct(product, first, std::min(at_once, lines - first));
    if (!part) return {};
    // None where CTAs share k: sums would be split as the band suggests.
    const std::optional<jit::Plan> of_part =
        jit::PlanWith(part->problem, device, plan.family, plan.config);
    if (!of_part) return {};
    bands.push_back({*std::move(part), *of_part});
  }
  return bands;
}

namespace {

absl::StatusOr<Results> Run(device::Lane& lane, const Prepared& prepared,
                            const Product& product,
                            absl::Span<const Band> bands,
                            const RequestContext& context, Phases& phases) {
  device::Stopwatch stopwatch;
  Placing placing(lane, prepared, product);
  RETURN_IF_ERROR(placing.Share(context));
  for (const Band& band : bands) RETURN_IF_ERROR(placing.Add(band));
  phases.upload = stopwatch.Lap();
  RETURN_IF_ERROR(context.Check("launch"));
  ASSIGN_OR_RETURN(
      const device::BandTimes times,
      lane.MultiplyInBands(placing.bands(), *prepared.kernel->kernel));
  phases.upload += times.upload;
  phases.execute = times.execute;
  phases.download = times.download;
  phases.kernels = times.kernels;
  Results results;
  results.copies = placing.copies();
  return results;
}

}  // namespace

absl::StatusOr<Results> RunInBands(device::Lane& lane, const Prepared& prepared,
                                   const Product& product,
                                   absl::Span<const Band> bands,
                                   const RequestContext& context,
                                   Phases& phases) {
  absl::StatusOr<Results> results =
      Run(lane, prepared, product, bands, context, phases);
  // The lane may hold memory of a client, which is to have it back.
  if (!results.ok()) lane.Synchronize().IgnoreError();
  return results;
}

}  // namespace gemmd::engine
