#include "service/rpc/region_part.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "jit/base/status.h"

namespace gemmd::rpc {

absl::StatusOr<RegionBytes> FindRegion(const region::Store& regions,
                                       const std::string& identity,
                                       const v1::RegionPart& part,
                                       const jit::MatrixLayout& layout,
                                       absl::string_view field) {
  RegionBytes found;
  auto region = regions.Find(part.region(), identity);
  if (!region.ok()) {
    return absl::Status(
        region.status().code(),
        absl::StrCat(field, ": ", region.status().message()));
  }
  ASSIGN_OR_RETURN(found.wire,
                   ToWireLayout(part.layout(), layout,
                                absl::StrCat(field, ".layout")));
  const auto bytes = static_cast<int64_t>((*region)->bytes().size());
  if (part.offset() < 0 || part.offset() > bytes ||
      found.wire.least_bytes > bytes - part.offset()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ".offset is ", part.offset(),
                     " and the matrix has ", found.wire.least_bytes,
                     " bytes; allowed: within the region's ", bytes));
  }
  // The rest of that byte may hold anything, and devices expect zeros.
  if (device::IsOnDevice(region->get()) && layout.last_byte_bits() != 8) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is in device memory and its lines have ",
                     layout.width(), " elements of ", jit::BitsOf(layout.type),
                     " bits; allowed there: lines of whole bytes"));
  }
  found.place = {*std::move(region), part.offset()};
  return found;
}

absl::Status CheckOnDevice(const Runtime& runtime, const device::Region& region,
                           int device, absl::string_view field) {
  const int home = region.device();
  if (home == device::Region::kHost || home == device) return absl::OkStatus();
  const auto name = [&](int number) {
    return runtime.engine.device(number).description().name;
  };
  return absl::InvalidArgumentError(absl::StrCat(
      field, " is in memory of ", name(home), " and the tensor lives on ",
      name(device), "; allowed: one device"));
}

// Checked once, metadata could be others when they are used.
absl::Status CheckReadsRegion(const jit::MatrixLayout& layout,
                              absl::string_view field) {
  if (!layout.sparse) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, " is given for sparse elements; allowed: others, or sent inline"));
}

}  // namespace gemmd::rpc
