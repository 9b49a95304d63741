#include "service/rpc/matmul_response.h"

#include <memory>
#include <utility>
#include <vector>

#include "gemmd/v1/matmul.pb.h"
#include "service/rpc/convert.h"

namespace gemmd::rpc {

WireWriter ToMatmulResponse(engine::ProductResult result, Counters& counters) {
  WireWriter writer;
  writer.AddMessage(v1::MatmulResponse::kExecutionFieldNumber,
                    ToWire(result.execution));
  const auto add = [&](uint32_t number,
                       std::unique_ptr<device::HostBuffer> buffer) {
    if (buffer == nullptr) return;
    std::vector<grpc::Slice> slices;
    slices.push_back(Wrap(std::move(buffer)));
    counters.sent_bytes += slices.front().size();
    writer.AddBytes(number, std::move(slices));
  };
  add(v1::MatmulResponse::kDFieldNumber, std::move(result.d));
  add(v1::MatmulResponse::kAuxiliaryFieldNumber, std::move(result.auxiliary));
  if (result.amax) {
    v1::MatmulResponse rest;
    rest.set_amax(*result.amax);
    writer.AddFields(rest);
  }
  return writer;
}

}  // namespace gemmd::rpc
