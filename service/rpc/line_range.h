// Some of the lines of a tensor, as requests name them. Pure functions.
#ifndef GEMMD_SERVICE_RPC_LINE_RANGE_H_
#define GEMMD_SERVICE_RPC_LINE_RANGE_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gemmd/v1/tensors.pb.h"
#include "service/device/device.h"
#include "service/rpc/wire_layout.h"

namespace gemmd::rpc {

// INVALID_ARGUMENT naming `field` unless they are lines of `matrix`, at least
// one.
absl::StatusOr<device::LineRange> ToLineRange(const v1::LineRange& lines,
                                              const jit::MatrixLayout& matrix,
                                              absl::string_view field);

// How `lines`, a layout of some lines of a matrix, lie by themselves where the
// matrix, which is tight, lies as `wire` says.
WireLayout LinesOf(const WireLayout& wire, const jit::MatrixLayout& lines);

}  // namespace gemmd::rpc

#endif  // GEMMD_SERVICE_RPC_LINE_RANGE_H_
