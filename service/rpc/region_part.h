// Matrices that lie in a region, as requests name them. See regions.proto.
#ifndef GEMMD_SERVICE_RPC_REGION_PART_H_
#define GEMMD_SERVICE_RPC_REGION_PART_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gemmd/v1/regions.pb.h"
#include "jit/problem/layout.h"
#include "service/device/region.h"
#include "service/rpc/region/store.h"
#include "service/rpc/runtime.h"
#include "service/rpc/wire_layout.h"

namespace gemmd::rpc {

struct RegionBytes {
  device::RegionPlace place;
  WireLayout wire;
};

// Where `part` says that a matrix of `layout` lies. Errors name `field`, which
// is that part ("a.region"):
// NOT_FOUND without such a region of `identity`'s, INVALID_ARGUMENT unless it
// is within it, and of a device's memory its lines end with a byte.
absl::StatusOr<RegionBytes> FindRegion(const region::Store& regions,
                                       const std::string& identity,
                                       const v1::RegionPart& part,
                                       const jit::MatrixLayout& layout,
                                       absl::string_view field);

// INVALID_ARGUMENT naming `field` where a matrix of `layout` is not read from a
// region.
absl::Status CheckReadsRegion(const jit::MatrixLayout& layout,
                              absl::string_view field);

// INVALID_ARGUMENT naming `field` where `region` is memory of another device
// than the one of that number, a tensor's.
absl::Status CheckOnDevice(const Runtime& runtime, const device::Region& region,
                           int device, absl::string_view field);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_REGION_PART_H_
