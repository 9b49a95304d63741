#include "service/rpc/matmul_response.h"

#include <memory>
#include <utility>
#include <vector>

#include "gemmd/v1/matmul.pb.h"
#include "service/rpc/convert.h"

namespace gemmd::rpc {

WireWriter ToMatmulResponse(const engine::Execution* execution,
                            engine::Results results, Counters& counters) {
  WireWriter writer;
  if (execution != nullptr) {
    writer.AddMessage(v1::MatmulResponse::kExecutionFieldNumber,
                      ToWire(*execution));
  }
  const auto add = [&](uint32_t number,
                       std::unique_ptr<device::HostBuffer> buffer) {
    if (buffer == nullptr) return;
    std::vector<grpc::Slice> slices;
    slices.push_back(Wrap(std::move(buffer)));
    counters.sent_bytes += slices.front().size();
    writer.AddBytes(number, std::move(slices));
  };
  add(v1::MatmulResponse::kDFieldNumber, std::move(results.d));
  add(v1::MatmulResponse::kAuxiliaryFieldNumber, std::move(results.auxiliary));
  if (results.amax) {
    v1::MatmulResponse rest;
    rest.set_amax(*results.amax);
    writer.AddFields(rest);
  }
  return writer;
}

WireWriter ToMatmulResponse(engine::ProductResult result, Counters& counters) {
  return ToMatmulResponse(&result.execution, std::move(result), counters);
}

}  // namespace gemmd::rpc
