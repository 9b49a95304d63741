#include "service/rpc/sequence_names.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "jit/base/status.h"
#include "service/rpc/matmul_request.h"
#include "service/rpc/parse.h"
#include "service/rpc/region_part.h"
#include "service/rpc/tensor_info.h"

namespace gemmd::rpc {
namespace {

constexpr size_t kMaxNameBytes = 64;
// That an error lists.
constexpr size_t kMostListed = 8;
constexpr int kForEver = std::numeric_limits<int>::max();

std::string Quoted(absl::string_view name) {
  return absl::StrCat("\"", absl::CHexEscape(name), "\"");
}

}  // namespace

absl::Status SequenceNames::CheckNew(const std::string& name,
                                     absl::string_view field) const {
  if (name.empty() || name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, " has ", name.size(), " bytes; allowed: 1 to ", kMaxNameBytes));
  }
  RETURN_IF_ERROR(CheckText(field, name));
  const auto taken = by_name_.find(name);
  if (taken == by_name_.end()) return absl::OkStatus();
  const int step = values_[taken->second].written;
  return absl::InvalidArgumentError(
      absl::StrCat(field, " ", Quoted(name), " is taken by ",
                   step < 0 ? "an operand" : absl::StrCat("steps[", step, "]"),
                   "; allowed: a name of its own"));
}

absl::Status SequenceNames::AddOperand(const std::string& name,
                                       SequenceOperand operand) {
  RETURN_IF_ERROR(CheckNew(name, "name"));
  if (operand.region) operand.layout = operand.region->layout();
  by_name_[name] = values_.size();
  Value& value = values_.emplace_back();
  value.name = name;
  value.written = -1;
  value.operand = std::move(operand);
  return absl::OkStatus();
}

bool SequenceNames::IsSingle(const std::string& name) const {
  // One that is unknown is refused where its field is named.
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return false;
  const Value& value = values_[found->second];
  return value.layout ? value.layout->count == 1 : value.is_for_every_batch();
}

size_t SequenceNames::ValueFor(size_t first, const jit::MatrixLayout& layout) {
  const auto fits = [&](const Value& value) {
    return !value.layout || *value.layout == layout;
  };
  const Value& value = values_[first];
  if (fits(value) || !value.is_for_every_batch()) return first;
  jit::MatrixLayout alike = *value.layout;
  alike.count = layout.count;
  if (alike != layout) return first;
  const auto found = absl::c_find_if(values_, [&](const Value& other) {
    return other.repeats == first && fits(other);
  });
  if (found != values_.end()) return found - values_.begin();
  Value again = {.name = value.name, .written = -1, .operand = value.operand};
  again.repeats = first;
  values_.push_back(std::move(again));
  return values_.size() - 1;
}

std::string SequenceNames::Known() const {
  if (by_name_.empty()) return "none, because there are none yet";
  std::string known;
  size_t listed = 0;
  for (const Value& value : values_) {
    if (value.name.empty() || value.repeats) continue;
    if (listed++ == kMostListed) return absl::StrCat(known, ", ...");
    absl::StrAppend(&known, known.empty() ? "" : ", ", Quoted(value.name));
  }
  return known;
}

absl::Status SequenceNames::Look(const region::Store& regions,
                                 const std::string& identity,
                                 const jit::MatrixLayout& layout,
                                 absl::string_view text, Value& value) {
  SequenceOperand& operand = value.operand;
  if (!operand.region) {
    ASSIGN_OR_RETURN(value.wire, ToWireLayout(operand.layout, layout,
                                              absl::StrCat(text, "layout")));
    return CheckLength(value.wire, SizeOf(operand.data),
                       absl::StrCat(text, "data"));
  }
  const std::string field = absl::StrCat(text, "region");
  RETURN_IF_ERROR(CheckReadsRegion(layout, field));
  ASSIGN_OR_RETURN(
      RegionBytes found,
      FindRegion(regions, identity, *operand.region, layout, field));
  value.wire = found.wire;
  operand.data = {
      {found.place.bytes(), static_cast<size_t>(found.wire.least_bytes)}};
  value.region = std::move(found.place.region);
  return absl::OkStatus();
}

absl::Status SequenceNames::Read(const region::Store& regions,
                                 const std::string& identity,
                                 const std::string& name,
                                 const jit::MatrixLayout& layout,
                                 absl::string_view field,
                                 engine::Input engine::Product::*input) {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".name is ", Quoted(name),
        "; allowed: names of operands, and of results of steps before this "
        "one: ",
        Known()));
  }
  const size_t at = ValueFor(found->second, layout);
  Value& value = values_[at];
  if (!value.layout) {
    const std::string text =
        absl::StrCat(field, ".name ", Quoted(name), ": operand's ");
    RETURN_IF_ERROR(Look(regions, identity, layout, text, value));
    value.layout = layout;
  } else if (*value.layout != layout) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ".name ", Quoted(name), " is ", LayoutText(*value.layout),
        "; allowed for this problem: ", LayoutText(layout)));
  }
  value.last_use = std::max(value.last_use, step_);
  uses_.push_back(
      {.step = static_cast<size_t>(step_), .value = at, .input = input});
  return absl::OkStatus();
}

absl::Status SequenceNames::Write(
    const std::string& name, const jit::MatrixLayout& layout, bool leaves,
    absl::string_view field, engine::Destination engine::Product::*output) {
  if (!name.empty()) {
    RETURN_IF_ERROR(CheckNew(name, absl::StrCat(field, ".name")));
    by_name_[name] = values_.size();
  }
  uses_.push_back({.step = static_cast<size_t>(step_),
                   .value = values_.size(),
                   .output = output});
  Value& value = values_.emplace_back();
  value.name = name;
  value.written = step_;
  value.last_use = leaves ? kForEver : step_;
  value.layout = layout;
  return absl::OkStatus();
}

absl::StatusOr<int> SequenceNames::BoundTo(const Runtime& runtime,
                                           int device) const {
  for (const Value& value : values_) {
    auto home = rpc::BoundTo(runtime, value.region.get(), device);
    if (!home.ok()) {
      return absl::Status(home.status().code(),
                          absl::StrCat("operand ", Quoted(value.name), ": ",
                                       home.status().message()));
    }
    device = *home;
  }
  return device;
}

absl::Status SequenceNames::CheckOverlap(int64_t most_bytes) const {
  for (const Value& value : values_) {
    if (value.written >= 0 || !value.layout) continue;
    RETURN_IF_ERROR(rpc::CheckOverlap(
        value.wire, *value.layout, most_bytes,
        absl::StrCat("operand ", Quoted(value.name), ": ",
                     value.region ? "region.layout" : "layout")));
  }
  return absl::OkStatus();
}

// Values come in the order in which they are written: those that nothing reads
// from a step on leave their rooms to what later steps write, not to what that
// step writes itself.
std::vector<jit::MatrixLayout> SequenceNames::Rooms() {
  std::vector<jit::MatrixLayout> rooms;
  std::vector<int> taken_until;  // Of the rooms: the step after which not.
  for (Value& value : values_) {
    if (!value.has_room()) continue;
    size_t room = 0;
    while (room < rooms.size() && (taken_until[room] >= value.written ||
                                   rooms[room] != *value.layout)) {
      ++room;
    }
    if (room == rooms.size()) {
      rooms.push_back(*value.layout);
      taken_until.push_back(0);
    }
    value.room = room;
    taken_until[room] = value.last_use;
  }
  return rooms;
}

void SequenceNames::Bind(const Temporaries& rooms, engine::Sequence& sequence) {
  sequence.rooms = rooms;
  for (Value& value : values_) {
    if (value.written >= 0 || !value.has_room()) continue;
    sequence.operands.push_back(
        {.name = absl::StrCat("operand ", Quoted(value.name)),
         .bytes = {.pieces = std::move(value.operand.data),
                   .pitch_bytes = value.wire.pitch_bytes,
                   .matrix_bytes = value.wire.matrix_bytes,
                   .region = std::move(value.region)},
         .room = rooms[value.room]});
  }
  for (const Use& use : uses_) {
    const Value& value = values_[use.value];
    if (!value.has_room()) continue;
    engine::Product& product = sequence.steps[use.step];
    if (use.input != nullptr) {
      (product.*use.input).tensor = rooms[value.room];
    } else {
      (product.*use.output).tensor = rooms[value.room];
    }
  }
}

}  // namespace gemmd::rpc
